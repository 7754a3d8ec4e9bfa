/**
 * Every subject of a job, `muster.<job>.<place>.…`. Publishing to a subject is the operator's API, so this table is also
 * the documentation (`docs/reference/subjects.md` is written from it).
 */
import { checkId, type Role } from "./ids.ts";

/** Where messages of a job live. */
export const subjectTable = [
  { pattern: "muster.<job>.hb.<role>.<id>", place: "core NATS", what: "heartbeats; may be lost, never journaled" },
  { pattern: "muster.<job>.probe.<id>", place: "core NATS", what: "questions to silent replicas; not stored" },
  {
    pattern: "muster.<job>.reports.<role>.<id>.<kind>",
    place: "stream reports",
    what: "facts from replicas and commands of operators to the controller",
  },
  {
    pattern: "muster.<job>.commands.<id>.<kind>",
    place: "stream commands",
    what: "orders of the controller to one actor",
  },
  {
    pattern: "muster.<job>.journal",
    place: "stream journal",
    what: "accepted inputs of the controller, by compare-and-set",
  },
  {
    pattern: "muster.<job>.groups.<id>",
    place: "stream groups",
    what: "finished groups of trajectories, several to a message",
  },
  { pattern: "muster.<job>.events.<kind>", place: "stream events", what: "public facts for watchers" },
] as const;

/** The subjects of one job. Ids are checked, so every result is a valid subject without wildcards. */
export interface Subjects {
  readonly journal: string;
  heartbeat(role: Role, id: string): string;
  probe(id: string): string;
  report(role: Role, id: string, kind: string): string;
  command(id: string, kind: string): string;
  groups(id: string): string;
  event(kind: string): string;
  /** Patterns for readers. */
  readonly all: {
    readonly heartbeats: string;
    readonly reports: string;
    readonly events: string;
    commandsOf(id: string): string;
  };
}

/** Builds the subjects of a job. @throws MUSTER_ERR_ID_INVALID */
export function subjectsOf(job: string): Subjects {
  const root = `muster.${checkId("job", job)}`;
  return {
    journal: `${root}.journal`,
    probe: (id) => `${root}.probe.${checkId("id", id)}`,
    heartbeat: (role, id) => `${root}.hb.${role}.${checkId("id", id)}`,
    report: (role, id, kind) => `${root}.reports.${role}.${checkId("id", id)}.${kind}`,
    command: (id, kind) => `${root}.commands.${checkId("id", id)}.${kind}`,
    groups: (id) => `${root}.groups.${checkId("id", id)}`,
    event: (kind) => `${root}.events.${kind}`,
    all: {
      heartbeats: `${root}.hb.*.*`,
      reports: `${root}.reports.>`,
      events: `${root}.events.>`,
      commandsOf: (id) => `${root}.commands.${checkId("id", id)}.>`,
    },
  };
}

/** Who a report or heartbeat says it is from, by its subject alone; `null` when the subject has another form. */
export function senderOfSubject(subject: string): { readonly role: string; readonly id: string } | null {
  const match = /^muster\.[^.]+\.(?:reports|hb)\.([^.]+)\.([^.]+)(?:\.|$)/.exec(subject);
  return match ? { role: match[1] as string, id: match[2] as string } : null;
}

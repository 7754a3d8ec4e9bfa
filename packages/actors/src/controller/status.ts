/** What `muster status` shows: a picture of the job, written to the state store once a second. For display only. */
import { clipText } from "@muster/base";
import { type ControllerState, isCordoned, ledgerOf, membersOf, missingOf, phaseOf } from "@muster/machines";
import { type Ledger, memberRoles, pack, type Section, storedBytesMax } from "@muster/protocol";
import type { StreamUsage } from "@muster/transport";
import type { IncidentSummary } from "./incident-watch.ts";
import type { StreamsSeen } from "./stream-watch.ts";
import type { Beat } from "./watch-members.ts";

/** Key of the picture in the job's state store. */
export const statusKey = "status";

/** One member in the picture. */
export interface MemberStatus {
  readonly id: string;
  readonly role: string;
  /** Ranks that share its model. */
  readonly ranks: number;
  readonly incarnation: string;
  readonly health: string;
  readonly host: string;
  readonly pid: number;
  readonly version: number | null;
  readonly order: string | null;
  readonly phase: string | null;
  readonly beatAgeMs: number | null;
  readonly loopLagMs: number | null;
  readonly rssBytes: number | null;
}

/** Why trajectories were given up, and how many. */
export interface CauseStatus {
  readonly name: string;
  readonly message: string;
  /** Where it was thrown; `null` when that is not known. */
  readonly frame: string | null;
  readonly count: number;
  /** `<step>.<index>/<sample>` of the first one. */
  readonly sample: string | null;
}

/** One managed replica in the picture. */
export interface FleetReplicaStatus {
  readonly id: string;
  readonly role: string;
  readonly node: string | null;
  readonly health: string;
  readonly life: number;
  readonly deaths: number;
  readonly cordoned: boolean;
}

/** One node in the picture; `null` in its capacity is no limit. */
export interface FleetNodeStatus {
  readonly id: string;
  readonly host: string;
  readonly cordoned: boolean;
  /** Signs that its host may fail soon. */
  readonly signs: readonly string[];
  readonly replicas: number;
  readonly capacity: Readonly<Record<"policy" | "rollout" | "checkpoint", number | null>>;
}

/** How many there are, by role and health. */
export type Totals = Readonly<Record<string, Readonly<Record<string, number>>>>;

/** What should run where, and how it is. */
export interface FleetStatus {
  readonly wanted: Readonly<Record<"policy" | "rollout" | "checkpoint", number>>;
  readonly nodes: readonly FleetNodeStatus[];
  readonly replicas: readonly FleetReplicaStatus[];
  /** All managed replicas. */
  readonly totals: Totals;
  /** Rows that are left out; those of who is well are left out first. */
  readonly leftOut: { readonly nodes: number; readonly replicas: number };
  /** What the job lacks, in words. */
  readonly missing: readonly string[];
  /** Commands of operators that are not done yet. */
  readonly commands: readonly { readonly id: string; readonly kind: string; readonly asked: string }[];
}

/** The picture of a job. */
export interface JobStatus {
  readonly job: string;
  readonly atMs: number;
  readonly term: number;
  /** The process of the controller that drew it. */
  readonly controller: { readonly host: string; readonly pid: number };
  readonly phase: string;
  readonly step: number;
  readonly steps: number;
  readonly attempt: number;
  readonly epoch: number;
  readonly mesh: readonly string[];
  readonly lineage: number;
  readonly version: number | null;
  readonly sections: readonly Section[];
  readonly leases: number;
  /** Results of rollout replicas that were of no use, by why. */
  readonly dropped: ControllerState["dropped"];
  readonly ledger: Ledger;
  /** Root causes of trajectories that were given up, the most frequent first. */
  readonly causes: readonly CauseStatus[];
  readonly incidents: IncidentSummary;
  readonly checkpoint: { readonly step: number; readonly path: string } | null;
  readonly members: readonly MemberStatus[];
  /** All members. */
  readonly totals: Totals;
  /** Rows of members that are left out; those of who is well are left out first. */
  readonly membersLeftOut: number;
  readonly fleet: FleetStatus;
  /** How full the streams are, by name. */
  readonly streams: Readonly<Record<string, StreamUsage>>;
}

/** What is seen beside the tables. */
export interface StatusView {
  readonly beats: ReadonlyMap<string, Beat>;
  /** The clock of the beats. */
  readonly nowMs: number;
  /** Wall time. */
  readonly wallMs: number;
  readonly controller: JobStatus["controller"];
  readonly incidents: IncidentSummary;
  readonly streams: StreamsSeen;
  /** Most rows of members, of replicas and of nodes; default all. */
  readonly rowsMax?: number;
}

/** Longest text in a row, in characters. */
const textMax = 400;

/** Rows of one kind: as many as a picture should have, and ever fewer while it does not fit. */
const rowsTried = [512, 128, 32, 0];

/** The picture as it is written: with as many rows as fit into one value of the state store. Pure. */
export function packStatus(job: string, state: ControllerState, view: StatusView): Uint8Array {
  const pictures = rowsTried.map((rowsMax) => () => pack(statusOf(job, state, { ...view, rowsMax })));
  let picture = new Uint8Array(0) as Uint8Array;
  for (const draw of pictures) {
    picture = draw();
    if (picture.byteLength <= storedBytesMax) break;
  }
  return picture;
}

/** The fleet's part of the picture. Pure. */
function fleetStatusOf(state: ControllerState, rowsMax: number): FleetStatus {
  const { wanted, replicas, nodes, commands } = state.fleet;
  const all = Object.entries(replicas).map(([id, replica]) => ({ id, ...replica }));
  const rows = chosen(all, rowsMax, ({ health }) => health === "HEALTHY");
  const open = Object.entries(commands).filter(([, { answer }]) => answer === null);
  const load = new Map<string | null, number>();
  for (const { node } of all) load.set(node, (load.get(node) ?? 0) + 1);
  const present = membersOf(state, "node").flatMap(({ id, host }) => {
    const node = nodes[id];
    return node ? [{ id, host, cordoned: isCordoned(state, id), node }] : [];
  });
  const shown = chosen(present, rowsMax, ({ cordoned, node }) => !cordoned && node.signs.length === 0);
  return {
    wanted,
    nodes: shown.map(({ id, host, cordoned, node }) => {
      const signs = node.signs.map(({ detail }) => clipText(detail, textMax));
      return { id, host, cordoned, signs, replicas: load.get(id) ?? 0, capacity: node.capacity };
    }),
    replicas: rows.map(({ id, role, node, health, life, deaths }) => {
      return { id, role, node, health, life, deaths, cordoned: isCordoned(state, id) };
    }),
    totals: totalsOf(all),
    leftOut: { nodes: present.length - shown.length, replicas: all.length - rows.length },
    missing: missingOf(state),
    commands: open.map(([id, { kind, asked }]) => ({ id, kind, asked: clipText(asked, textMax) })),
  };
}

/** At most so many, in their order; whoever is well is left out first. */
function chosen<T>(all: readonly T[], max: number, isWell: (one: T) => boolean): readonly T[] {
  if (all.length <= max) return all;
  const first = [...all.filter((one) => !isWell(one)), ...all.filter(isWell)].slice(0, max);
  const kept = new Set(first);
  return all.filter((one) => kept.has(one));
}

function totalsOf(all: readonly { readonly role: string; readonly health: string }[]): Totals {
  const totals: Record<string, Record<string, number>> = {};
  for (const { role, health } of all) {
    totals[role] ??= {};
    const counts = totals[role];
    counts[health] = (counts[health] ?? 0) + 1;
  }
  return totals;
}

/** Draws the picture. Pure. */
export function statusOf(job: string, state: ControllerState, view: StatusView): JobStatus {
  const { rowsMax = Number.POSITIVE_INFINITY } = view;
  const all = memberRoles.flatMap((role) => membersOf(state, role));
  const members = chosen(all, rowsMax, ({ health }) => health === "healthy");
  return {
    job,
    atMs: view.wallMs,
    term: state.term,
    controller: view.controller,
    phase: phaseOf(state),
    step: state.step.step - 1,
    steps: state.plan.steps,
    attempt: state.step.attempt,
    epoch: state.mesh.epoch,
    mesh: state.mesh.members,
    lineage: state.weights?.lineage ?? state.restore.lineage,
    version: state.weights?.version ?? null,
    sections: state.weights?.sections ?? [],
    leases: Object.keys(state.leases).length,
    dropped: state.dropped,
    ledger: ledgerOf(state),
    causes: [...state.givenUp.causes]
      .sort((a, b) => b.count - a.count)
      .map(({ name, message, frame = null, count, sample = null }) => {
        return { name, message: clipText(message, textMax), frame, count, sample };
      }),
    incidents: view.incidents,
    streams: view.streams,
    checkpoint: state.checkpoints.saved,
    fleet: fleetStatusOf(state, rowsMax),
    totals: totalsOf(all),
    membersLeftOut: all.length - members.length,
    members: members.map((member) => {
      const beat = view.beats.get(member.id);
      const { id, role, incarnation, health, host, pid } = member;
      return {
        id,
        role,
        ranks: role === "rollout" ? state.plan.rolloutRanks : 1,
        incarnation,
        health,
        host,
        pid,
        version: member.held?.version ?? null,
        order: member.order?.kind ?? null,
        phase: beat?.phase ?? null,
        beatAgeMs: beat ? view.nowMs - beat.atMs : null,
        loopLagMs: beat?.loopLagMs ?? null,
        rssBytes: beat?.rssBytes ?? null,
      };
    }),
  };
}

/** What `muster status` shows: a picture of the job, written to the state store once a second. For display only. */
import { type ControllerState, isCordoned, ledgerOf, membersOf, missingOf, phaseOf } from "@muster/machines";
import { type Ledger, memberRoles, type Section } from "@muster/protocol";
import type { IncidentSummary } from "./incident-watch.ts";
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

/** What should run where, and how it is. */
export interface FleetStatus {
  readonly wanted: Readonly<Record<"policy" | "rollout" | "checkpoint", number>>;
  readonly nodes: readonly FleetNodeStatus[];
  readonly replicas: readonly FleetReplicaStatus[];
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
  readonly dropped: { readonly duplicate: number; readonly stale: number };
  readonly ledger: Ledger;
  /** Root causes of trajectories that were given up, the most frequent first. */
  readonly causes: readonly CauseStatus[];
  readonly incidents: IncidentSummary;
  readonly checkpoint: { readonly step: number; readonly path: string } | null;
  readonly members: readonly MemberStatus[];
  readonly fleet: FleetStatus;
}

/** The fleet's part of the picture. Pure. */
function fleetStatusOf(state: ControllerState): FleetStatus {
  const { wanted, replicas, nodes, commands } = state.fleet;
  const rows = Object.entries(replicas).map(([id, { role, node, health, life, deaths }]) => {
    return { id, role, node, health, life, deaths, cordoned: isCordoned(state, id) };
  });
  const open = Object.entries(commands).filter(([, { answer }]) => answer === null);
  return {
    wanted,
    nodes: membersOf(state, "node").flatMap(({ id, host }) => {
      const node = nodes[id];
      const count = rows.filter((row) => row.node === id).length;
      if (!node) return [];
      const signs = node.signs.map(({ detail }) => detail);
      return [{ id, host, cordoned: isCordoned(state, id), signs, replicas: count, capacity: node.capacity }];
    }),
    replicas: rows,
    missing: missingOf(state),
    commands: open.map(([id, { kind, asked }]) => ({ id, kind, asked })),
  };
}

/** Draws the picture. `wallMs` is wall time, `nowMs` the clock of the beats. Pure. */
export function statusOf(
  job: string,
  state: ControllerState,
  view: {
    readonly beats: ReadonlyMap<string, Beat>;
    readonly nowMs: number;
    readonly wallMs: number;
    readonly controller: JobStatus["controller"];
    readonly incidents: IncidentSummary;
  },
): JobStatus {
  const members = memberRoles.flatMap((role) => membersOf(state, role));
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
      .map(({ name, message, frame = null, count, sample = null }) => ({ name, message, frame, count, sample })),
    incidents: view.incidents,
    checkpoint: state.checkpoints.saved,
    fleet: fleetStatusOf(state),
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

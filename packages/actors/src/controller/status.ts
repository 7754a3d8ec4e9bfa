/** Draws the status of a job from the tables of its controller. */
import { clipText } from "@muster/base";
import {
  type ControllerState,
  enginesOf,
  type FleetRank,
  type FleetReplica,
  isCordoned,
  ledgerOf,
  membersOf,
  missingOf,
  phaseOf,
  processesOf,
  ranksOf,
  samplersOf,
  scriptPhaseOf,
} from "@muster/machines/controller";
import { encodeStatus, type JobStatus, memberRoles, stepsAfter, storedBytesMax, traitsOf } from "@muster/protocol";
import type { StreamReadings } from "./stream-watch.ts";
import type { Beat } from "./watch-members.ts";

/** What is seen beside the tables. */
export interface StatusView {
  readonly beats: ReadonlyMap<string, Beat>;
  /** The clock of the beats. */
  readonly nowMs: number;
  /** Wall time. */
  readonly wallMs: number;
  readonly controller: JobStatus["controller"];
  readonly incidents: JobStatus["incidents"];
  readonly streams: StreamReadings;
  /** Most rows of members, of replicas and of nodes; default all. */
  readonly rowsMax?: number;
}

/** Longest text in a row, in characters. */
const textMax = 400;

/** Rows of one kind: as many as a status should have, and ever fewer while it does not fit. */
const rowsTried = [512, 128, 32, 0];

/** The status as it is written: with as many rows as fit into one value of the state store. Pure. */
export function writtenStatus(job: string, state: ControllerState, view: StatusView): Uint8Array {
  const tries = rowsTried.map((rowsMax) => () => encodeStatus(statusOf(job, state, { ...view, rowsMax })));
  let written = new Uint8Array(0) as Uint8Array;
  for (const write of tries) {
    written = write();
    if (written.byteLength <= storedBytesMax) break;
  }
  return written;
}

/** The part of the fleet. Pure. */
function fleetStatusOf(state: ControllerState, rowsMax: number): JobStatus["fleet"] {
  const { wanted, replicas, nodes, commands } = state.fleet;
  const all = Object.entries(replicas).map(([id, replica]) => ({ id, ...replica }));
  const rows = chosen(all, rowsMax, ({ health }) => health === "HEALTHY");
  const open = Object.entries(commands).filter(([, { answer }]) => answer === null);
  const load = new Map<string | null, number>();
  for (const replica of all) for (const { node } of ranksOf(replica)) load.set(node, (load.get(node) ?? 0) + 1);
  const present = membersOf(state, "node").flatMap(({ id, host, devices = [] }) => {
    const node = nodes[id];
    return node ? [{ id, host, cordoned: isCordoned(state, id), node, devices: [...devices] }] : [];
  });
  const shown = chosen(present, rowsMax, ({ cordoned, node }) => !cordoned && node.signs.length === 0);
  return {
    wanted,
    nodes: shown.map(({ id, host, cordoned, node, devices }) => {
      const signs = node.signs.map(({ detail }) => clipText(detail, textMax));
      return { id, host, cordoned, signs, replicas: load.get(id) ?? 0, capacity: node.capacity, devices };
    }),
    replicas: rows.map(({ id, ...replica }) => {
      const { role, node, health, life, deaths, devices = [] } = replica;
      const row = { id, role, node, health, life, deaths, cordoned: isCordoned(state, id), devices: [...devices] };
      return replica.group ? { ...row, ranks: ranksStatusOf(state, replica) } : row;
    }),
    totals: totalsOf(all),
    leftOut: { nodes: present.length - shown.length, replicas: all.length - rows.length },
    missing: missingOf(state),
    commands: open.map(([id, { kind, asked }]) => ({ id, kind, asked: clipText(asked, textMax) })),
  };
}

/** Absent ranks that are named. */
const absentMax = 8;

/** How many processes of a replica run, and where the others are. */
function ranksStatusOf(state: ControllerState, replica: FleetReplica) {
  const ranks = ranksOf(replica);
  const isUp = ({ process }: FleetRank): boolean => process !== null && process.life >= replica.life;
  const absent = ranks.flatMap((each, rank) =>
    isUp(each)
      ? []
      : [`rank ${rank} on ${state.members[each.node]?.host ?? each.node} ${each.process ? "ending" : "starting"}`],
  );
  const size = processesOf(state, replica.role);
  return { size, up: ranks.filter(isUp).length, absent: absent.slice(0, absentMax) };
}

/** At most so many, in their order; whoever is well is left out first. */
function chosen<T>(all: readonly T[], max: number, isWell: (one: T) => boolean): readonly T[] {
  if (all.length <= max) return all;
  const first = [...all.filter((one) => !isWell(one)), ...all.filter(isWell)].slice(0, max);
  const kept = new Set(first);
  return all.filter((one) => kept.has(one));
}

function totalsOf(all: readonly { readonly role: string; readonly health: string }[]): JobStatus["totals"] {
  const totals: Record<string, Record<string, number>> = {};
  for (const { role, health } of all) {
    totals[role] ??= {};
    const counts = totals[role];
    counts[health] = (counts[health] ?? 0) + 1;
  }
  return totals;
}

/** The status of a job. Pure. */
export function statusOf(job: string, state: ControllerState, view: StatusView): JobStatus {
  const { rowsMax = Number.POSITIVE_INFINITY } = view;
  const all = memberRoles.flatMap((role) => membersOf(state, role));
  const { engines: samplers } = samplersOf(state);
  const members = chosen(all, rowsMax, ({ health }) => health === "healthy");
  return {
    job,
    atMs: view.wallMs,
    term: state.term,
    controller: view.controller,
    phase: phaseOf(state),
    script: scriptPhaseOf(state) as JobStatus["script"] & object,
    ...(state.changes ? { changes: [...state.changes] } : {}),
    step: state.step.step - 1,
    steps: stepsAfter(state.plan.steps, state.changes),
    attempt: state.step.attempt,
    epoch: state.mesh.epoch,
    mesh: state.mesh.members,
    ...enginesOf(state.mesh),
    ...(samplers === undefined ? {} : { samplers }),
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
    best: state.heldOut?.checkpoint ?? null,
    fleet: fleetStatusOf(state, rowsMax),
    totals: totalsOf(all),
    membersLeftOut: all.length - members.length,
    members: members.map((member) => {
      const beat = view.beats.get(member.id);
      const { id, role, incarnation, health, host, pid } = member;
      return {
        id,
        role,
        ranks: traitsOf(role).hasRanks ? state.plan.rolloutRanks : 1,
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

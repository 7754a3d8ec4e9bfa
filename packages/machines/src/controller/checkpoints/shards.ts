/**
 * One checkpoint that several actors write together (`checkpoint.shards`): each writes some shards, and when all are durable, one of them seals it. Only
 * then does it count. What somebody does not finish is given to others.
 */
import type { Body } from "@muster/protocol";
import type { VersionKey } from "../../version-key.ts";
import { type Change, command, type ReportOf } from "../events.ts";
import { saveOf } from "../order.ts";
import { answered, withVersionOrder } from "../orders.ts";
import { sizesUpTo, stepsOf } from "../sizes.ts";
import { type ControllerState, type Member, membersOf, withMember } from "../state.ts";
import { sparedOf } from "./best-checkpoint.ts";
import type { Checkpoints, ShardSet } from "./checkpoints-state.ts";
import { pinsOf } from "./fallback.ts";

/** The set that the job may still finish: of this line, and newer than what counts. */
function currentSet({ checkpoints, weights, plan }: ControllerState): ShardSet | null {
  const { set, saved } = checkpoints;
  if (!set || set.of !== plan.checkpointShards) return null;
  return set.lineage === weights?.lineage && set.step > (saved?.step ?? -1) ? set : null;
}

/** True when all shards of a checkpoint are durable: it is to be sealed, whatever the job has come to since. Pure. */
export function isSetWhole(state: ControllerState): boolean {
  const set = currentSet(state);
  return set !== null && openShards(set).length === 0;
}

/**
 * Goes on with what was begun: a whole set is sealed, and shards that nobody writes any more are given to those who have the bytes, when the job has gone on
 * and nobody else has them. Pure.
 *
 * @param free - Checkpoint actors that can be told something now.
 */
export function planBegunSet(state: ControllerState, free: readonly Member[]): Change<ControllerState> | null {
  const set = currentSet(state);
  if (!set) return null;
  const orders = ordersOf(state, set);
  if (openShards(set).length === 0) {
    const sealer = free.find((member) => toldOf(member, set)?.length === 0) ?? free[0];
    return sealer && orders.length === 0 ? deal(state, set, [{ member: sealer, write: [] }]) : null;
  }
  if (set.version === state.weights?.version) return null;
  return giveOut(
    state,
    set,
    free.filter((member) => set.by.includes(member.incarnation) || toldOf(member, set)),
  );
}

/**
 * Orders the shards of the committed version that are not durable and that nobody writes. While others still write an older one it waits, except for the
 * last one of the job: else none would ever be whole where checkpoints are due faster than they are written. Pure.
 */
export function planNewSet(
  state: ControllerState,
  free: readonly Member[],
  fresh: Omit<ShardSet, "done" | "by">,
): Change<ControllerState> | null {
  const { step, version, told } = fresh;
  const begun = currentSet(state);
  const isBegun = begun?.step === step && begun.version === version;
  const isLast = step === stepsOf(state) || state.ending !== null;
  if (begun && !isBegun && !isLast && ordersOf(state, begun).length > 0) return null;
  // What was told stays as it was; only those who have the version may have changed.
  const set: ShardSet = isBegun
    ? { ...begun, told: { ...begun.told, holders: told.holders } }
    : { ...fresh, done: [], by: [] };
  return giveOut(state, set, free);
}

/** Some shards are durable. Pure. */
export function applyShardsSaved(state: ControllerState, event: ReportOf<"shards.saved">): Change<ControllerState> {
  const { version, shards } = event.body;
  const member = state.members[event.from];
  const set = currentSet(state);
  const isOrdered = shards.write.length > 0 && saveOf(member?.order, event.body)?.write?.join() === shards.write.join();
  if (!member || !isOrdered) return { state, effects: [] };
  const next = withMember(state, event.from, answered);
  if (set?.version !== version || set.of !== shards.of) return { state: next, effects: [] };
  const done = [...new Set([...set.done, ...shards.write])].sort((a, b) => a - b);
  const by = [...new Set([...set.by, member.incarnation])];
  const hasGrown = done.length > set.done.length;
  return { state: withSet(hasGrown ? withTimeFor(next, set) : next, { ...set, done, by }), effects: [] };
}

/** The end of the job waits while the last checkpoint comes on: a shard may have to be written once more, and somebody is to seal it. */
function withTimeFor(state: ControllerState, { step }: ShardSet): ControllerState {
  const { checkpoints, nowMs, plan } = state;
  if (checkpoints.wantedStep !== step) return state;
  const dueAtMs = Math.max(checkpoints.dueAtMs, nowMs + 2 * plan.timing.checkpointMs);
  return { ...state, checkpoints: { ...checkpoints, dueAtMs } };
}

/** Where checkpoints stand once a set is of no use any more: when it counts, when the job goes back, when it could not be sealed. Pure. */
export function withoutSet({ set: _, ...checkpoints }: Checkpoints): Checkpoints {
  return checkpoints;
}

/** True when a member was told to seal a version. Pure. */
export function isSealing(member: Member | undefined, version: VersionKey): boolean {
  return saveOf(member?.order, version)?.write?.length === 0;
}

function giveOut(state: ControllerState, set: ShardSet, free: readonly Member[]): Change<ControllerState> | null {
  const ordered = ordersOf(state, set).flat();
  const open = openShards(set).filter((index) => !ordered.includes(index));
  const begun = begunBy(set, free, open);
  const rest = open.filter((index) => !begun.some(({ write }) => write.includes(index)));
  const writers = free.filter((member) => !begun.some((one) => one.member === member)).slice(0, rest.length);
  const given = [
    ...begun,
    ...writers.map((member, i) => ({ member, write: rest.filter((_, at) => at % writers.length === i) })),
  ];
  return given.length > 0 ? deal(state, set, given) : null;
}

interface Given {
  readonly member: Member;
  readonly write: readonly number[];
}

/** Who was told shards by the controller before this one, and has not answered, goes on with those. */
function begunBy(set: ShardSet, free: readonly Member[], open: readonly number[]): readonly Given[] {
  const taken = new Set<number>();
  return free.flatMap((member) => {
    const write = toldOf(member, set) ?? [];
    if (write.length === 0 || !write.every((index) => open.includes(index) && !taken.has(index))) return [];
    for (const index of write) taken.add(index);
    return { member, write };
  });
}

/** Shards of a set that a member was told by the controller before this one and has not answered; none to seal it. */
function toldOf({ owed }: Member, set: ShardSet): readonly number[] | undefined {
  return saveOf(owed, set)?.write;
}

function deal(state: ControllerState, set: ShardSet, given: readonly Given[]): Change<ControllerState> {
  const { step, lineage, version, of, told } = set;
  const body = { step, lineage, version, ...told, ...pinsOf(state), ...sparedOf(state), ...sizesUpTo(state, step) };
  const withinMs = state.plan.timing.checkpointMs;
  return {
    state: given.reduce(
      (next, { member, write }) =>
        withMember(
          next,
          member.id,
          withVersionOrder(state, member, { kind: "checkpoint.save", lineage, version, withinMs, write }),
        ),
      withSet(state, set),
    ),
    effects: given.map(({ member, write }) => {
      const shards: Body<"checkpoint.save">["shards"] = { of, write: [...write] };
      return command(member, "checkpoint.save", { ...body, shards });
    }),
  };
}

function withSet(state: ControllerState, set: ShardSet): ControllerState {
  return { ...state, checkpoints: { ...state.checkpoints, set } };
}

function openShards({ of, done }: ShardSet): readonly number[] {
  return Array.from({ length: of }, (_, i) => i + 1).filter((index) => !done.includes(index));
}

/** Shards that members were told to write of a set and have not answered, by order; none of them in one to seal it. */
function ordersOf(state: ControllerState, set: ShardSet): readonly (readonly number[])[] {
  return membersOf(state, "checkpoint").flatMap(({ order }) => {
    const write = saveOf(order, set)?.write;
    return write ? [write] : [];
  });
}

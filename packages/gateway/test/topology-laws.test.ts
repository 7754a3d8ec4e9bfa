import fc from "fast-check";
import { expect, test } from "vitest";
import { plainOf, stateOf } from "../src/topology/plain-topology.ts";
import { globalRank, groupRanks, topologyOf } from "../src/topology/ranks.ts";
import {
  aliveOf,
  allNodes,
  emptyTopology,
  livingNode,
  nodeIdOf,
  type Outcome,
  rulesDefault,
  type Topology,
} from "../src/topology/state.ts";
import { type Answers, type Input, overdue, step } from "../src/topology/step.ts";

const role = fc.constantFrom("actor", "actor_fwd", "reference", "rollout");
const rank = fc.nat(4);
const life = fc.constantFrom(null, "x", "y");
const update = fc.constantFrom("", "u", "v");
const owner = fc.tuple(role, rank).map(([name, n]) => nodeIdOf(name, n));

/** Anything that may come, and the time that passes before it. */
const move = fc.record({
  waitMs: fc.constantFrom(0, 1_000, 20_000, 40_000, 400_000),
  input: fc.oneof<fc.Arbitrary<Input>[]>(
    fc.record({
      kind: fc.constant("register" as const),
      role_name: role,
      rank: fc.option(rank, { nil: null }),
      ip: fc.constantFrom(null, "a", "b"),
      port: fc.constantFrom(null, 1),
      world_size: fc.constant(null),
      device_id: fc.constant(null),
      metadata: fc.constant({}),
      incarnation: life,
    }),
    fc.record({ kind: fc.constant("unregister" as const), role, rank }),
    fc.record({ kind: fc.constant("heartbeat" as const), role, rank, incarnation: life }),
    fc.record({
      kind: fc.constant("meta.add" as const),
      updateId: update,
      sender: fc.option(owner, { nil: null }),
      entry: fc.constant({ names: ["a"], dtypes: ["f32"], shapes: [[1]], group_name: "g" }),
    }),
    fc.record({ kind: fc.constant("meta.clear" as const), updateId: update }),
    fc.record({ kind: fc.constant("lock.acquire" as const), name: update, owner, leaseMs: fc.constant(30_000) }),
    fc.record({ kind: fc.constant("lock.release" as const), name: update, token: fc.nat(5) }),
    fc.record({
      kind: fc.constant("port.lease" as const),
      service: fc.constant("dcs" as const),
      ip: fc.constant("a"),
      owner,
      not: fc.constant([]),
    }),
  ),
});

interface Entry {
  readonly before: Topology;
  readonly input: Input;
  readonly now: number;
  readonly outcome: Outcome<Answers[Input["kind"]]>;
}

/** Plays moves, with the ends of what ran out between them. */
function play(moves: readonly { waitMs: number; input: Input }[]): readonly Entry[] {
  let [state, now] = [emptyTopology, 0];
  const entries: Entry[] = [];
  const enter = (input: Input): void => {
    const outcome = step(state, input, { now, rules: rulesDefault });
    entries.push({ before: state, input, now, outcome });
    if ("state" in outcome) state = outcome.state;
  };
  for (const { waitMs, input } of moves) {
    now += waitMs;
    const due = overdue(state, { now, rules: rulesDefault });
    if (due) enter(due);
    enter(input);
  }
  return entries;
}

const moves = fc.array(move, { maxLength: 60 });
const afterOf = ({ before, outcome }: Entry): Topology => ("state" in outcome ? outcome.state : before);

test("ranks of groups and global ranks are dense, whoever joined, left and died before", () => {
  fc.assert(
    fc.property(moves, (all) => {
      const last = play(all).at(-1);
      if (last === undefined) return;
      const state = afterOf(last);
      const living = allNodes(state).filter(({ isAlive }) => isAlive);
      const global = living.map(({ info }) => globalRank(state, info.role_name, info.rank)).flatMap(answersOf);
      expect(global.map((each) => each.global_rank).sort((a, b) => a - b)).toEqual(living.map((_, i) => i));
      if (aliveOf(state, "actor")[0]?.info.rank !== 0) return;
      const targets = [...aliveOf(state, "actor_fwd"), ...aliveOf(state, "reference")].flatMap(({ info }) =>
        answersOf(groupRanks(state, { role: info.role_name, rank: info.rank, needUpdateRef: true })),
      );
      expect(targets.map((each) => each.global_rank)).toEqual(targets.map((_, i) => 1 + i));
      for (const each of targets) expect(each.world_size).toBe(1 + targets.length);
    }),
  );
});

test("the epoch never falls, and while it stays everybody sees the same topology", () => {
  fc.assert(
    fc.property(moves, (all) => {
      for (const entry of play(all)) {
        const after = afterOf(entry);
        expect(after.epoch).toBeGreaterThanOrEqual(entry.before.epoch);
        if (after.epoch === entry.before.epoch) expect(topologyOf(after, null)).toEqual(topologyOf(entry.before, null));
      }
    }),
  );
});

test("no living process loses its rank to another address", () => {
  fc.assert(
    fc.property(moves, (all) => {
      for (const { before, input, outcome } of play(all)) {
        if (input.kind !== "register" || !("state" in outcome)) continue;
        const { rank: got } = outcome.answer as Answers["register"];
        const held = before.roles.get(input.role_name)?.get(got);
        if (!held?.isAlive || (held.incarnation !== null && held.incarnation === input.incarnation)) continue;
        if (held.info.ip !== null && input.ip !== null) expect(input.ip).toBe(held.info.ip);
      }
    }),
  );
});

test("what is held is held by the living", () => {
  fc.assert(
    fc.property(moves, (all) => {
      for (const entry of play(all)) {
        const state = afterOf(entry);
        for (const { owner: id } of [...state.locks.values(), ...state.ports])
          expect(livingNode(state, id)).toBeDefined();
      }
    }),
  );
});

test("a snapshot and the records after it give the same state again, without the heartbeats that change nothing", () => {
  fc.assert(
    fc.property(moves, fc.nat(60), (all, cut) => {
      const entries = play(all);
      const first = entries[Math.min(cut, entries.length - 1)];
      if (first === undefined) return;
      let state = stateOf(JSON.parse(JSON.stringify(plainOf(first.before))));
      for (const entry of entries.slice(entries.indexOf(first))) {
        const isKept = entry.input.kind !== "heartbeat" || afterOf(entry).epoch !== entry.before.epoch;
        const outcome = isKept ? step(state, entry.input, { now: entry.now, rules: rulesDefault }) : { state };
        if ("state" in outcome) state = outcome.state;
      }
      const last = entries.at(-1);
      expect(last && withoutBeats(state)).toEqual(last && withoutBeats(afterOf(last)));
    }),
  );
});

function answersOf<T>(outcome: Outcome<T>): readonly T[] {
  return "refused" in outcome ? [] : [outcome.answer];
}

const withoutBeats = (state: Topology) =>
  JSON.parse(JSON.stringify(plainOf(state), (key, value) => (key === "lastHeartbeat" ? 0 : value)));

import { expect, test } from "vitest";
import { emptyTopology, type Outcome, rulesDefault, type Topology } from "../src/topology/state.ts";
import { overdue, step } from "../src/topology/step.ts";
import { addWeightMeta, clearWeightMeta, weightMetaFrom } from "../src/topology/weight-meta.ts";

const entryOf = (name: string, group = "g") => ({ names: [name], dtypes: ["bf16"], shapes: [[1]], group_name: group });
const at = { now: 0, rules: rulesDefault };

function added(state: Topology, name: string, { updateId = "", group = "g", rules = rulesDefault } = {}): Topology {
  const outcome = addWeightMeta(state, { updateId, sender: null, entry: entryOf(name, group) }, { now: 0, rules });
  if ("refused" in outcome) throw new Error(outcome.refused.message);
  return outcome.state;
}

function namesFrom(state: Topology, index: number, updateId = "", group: string | null = null) {
  const outcome = weightMetaFrom(state, { updateId, index, group });
  return "refused" in outcome ? outcome.refused.status : outcome.answer.map(({ names }) => names[0]);
}

const cleared = (state: Topology, updateId = ""): Topology =>
  (clearWeightMeta(state, updateId) as Extract<Outcome<unknown>, { state: Topology }>).state;

test("the list begins at the index asked for; nothing yet is an empty list", () => {
  const state = ["a", "b", "c"].reduce((sum, name) => added(sum, name), emptyTopology);
  expect([namesFrom(state, 0), namesFrom(state, 2), namesFrom(state, 3)]).toEqual([["a", "b", "c"], ["c"], []]);
  expect([namesFrom(emptyTopology, 0), namesFrom(emptyTopology, 5)]).toEqual([[], []]);
});

test("two updates that overlap do not mix, and neither do two groups", () => {
  let state = added(emptyTopology, "a", { updateId: "one" });
  state = added(state, "b", { updateId: "two" });
  state = added(state, "c", { updateId: "one", group: "other" });
  expect([namesFrom(state, 0, "one"), namesFrom(state, 0, "two"), namesFrom(state, 0, "one", "other")]).toEqual([
    ["a", "c"],
    ["b"],
    ["c"],
  ]);
});

test("whoever comes after the clear gets 410 and does not wait for ever", () => {
  const state = cleared(added(added(emptyTopology, "a"), "b"));
  expect([namesFrom(state, 2), namesFrom(state, 0)]).toEqual([410, []]);
  const next = added(state, "c");
  expect([namesFrom(next, 0), namesFrom(next, 2)]).toEqual([["c"], 410]);
});

test("a named update that is over stays over", () => {
  const state = cleared(added(emptyTopology, "a", { updateId: "u" }), "u");
  expect(namesFrom(state, 0, "u")).toBe(410);
  const again = addWeightMeta(state, { updateId: "u", sender: null, entry: entryOf("b") }, at);
  expect(again).toMatchObject({ refused: { status: 410 } });
});

test("an update that nobody adds to ends after its time", () => {
  const state = added(emptyTopology, "a", { updateId: "u" });
  expect(overdue(state, { now: 300_000, rules: rulesDefault })).toBeNull();
  const input = overdue(state, { now: 300_001, rules: rulesDefault });
  const outcome = input && step(state, input, { now: 300_001, rules: rulesDefault });
  expect(outcome && "state" in outcome && namesFrom(outcome.state, 0, "u")).toBe(410);
});

test("the buffer is bounded in messages, in bytes and in updates", () => {
  const add = (state: Topology, rules: object, updateId = "") =>
    addWeightMeta(
      state,
      { updateId, sender: null, entry: entryOf("b") },
      { now: 0, rules: { ...rulesDefault, ...rules } },
    );
  const one = added(emptyTopology, "a");
  for (const outcome of [
    add(one, { entriesMax: 1 }),
    add(one, { updateBytesMax: 100 }),
    add(one, { updatesMax: 1 }, "u"),
    // Bytes are counted over all updates: together they have to fit into one snapshot.
    add(one, { updateBytesMax: 100 }, "u"),
  ])
    expect(outcome).toMatchObject({ refused: { status: 507 } });
  // What was cleared counts no more.
  expect(add(cleared(one), { updatesMax: 1 }, "u")).toHaveProperty("state");
});

test("only so many updates that are over are remembered", () => {
  let state = emptyTopology;
  for (let i = 0; i < 1_100; i++) state = cleared(added(state, "a", { updateId: `u${i}` }), `u${i}`);
  expect(state.updates.size).toBe(1_024);
  expect(namesFrom(state, 0, "u1099")).toBe(410);
});

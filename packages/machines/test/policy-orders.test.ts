/** What a policy replica makes of orders and answers that are about something else than what it does now. */
import { describe, expect, it } from "vitest";
import { policyLogic } from "../src/policy/policy-machine.ts";
import { plan } from "./plans.ts";
import { type Effect, Replica } from "./replica.ts";

const timing = { ...plan.timing, initializeMs: 9 };
const sections = [{ name: "weights" as const, bytes: 8, digest: "w" }];
const stats = { tokens: 1, clipped: 0, klSum: 0, entropySum: 0, lossSum: 0, gradNorm: 1, computeMs: 1, reduceMs: 1 };
const attempt = { step: 5, attempt: 2, epoch: 3 };
const weights = { lineage: 2, version: 4 };
const holds = (version: object) => ({ ...version, sections, addresses: [], bytes: 8, durationMs: 1 });

const order = {
  initialize: (version: object = weights) => ({
    type: "weights.initialize",
    body: { ...version, source: { kind: "seed", seed: 1 } },
  }),
  pull: (version: object = weights) => ({ type: "weights.pull", body: { ...version, sections, holders: [] } }),
  mesh: (epoch = 3) => ({ type: "mesh.build", body: { epoch, members: [] } }),
  run: (patch: object = {}) => ({ type: "step.run", body: { ...attempt, ...weights, batch: [], ...patch } }),
  apply: (patch: object = {}) => ({
    type: "step.apply",
    body: { ...attempt, lineage: 2, version: 5, sections, ...patch },
  }),
  discard: (patch: object = {}) => ({ type: "step.discard", body: { ...attempt, reason: "retry", ...patch } }),
};
const joined = (epoch = 3) => ({ type: "mesh.joined", epoch });
const computed = (patch: object = {}) => ({
  type: "step.computed",
  ...attempt,
  finite: true,
  sections,
  stats,
  ...patch,
});
const errored = (patch: object = {}) => ({ type: "step.errored", ...attempt, cause: "no", missing: ["p1"], ...patch });

/** A replica that heard these, and does nothing else now. */
function after(...events: readonly object[]): Replica {
  const replica = new Replica(policyLogic, { timing });
  for (const event of events) replica.hear(event);
  return replica;
}
const holding = [order.pull(), { type: "weights.pulled", ...holds(weights) }];
const ready = [...holding, order.mesh(), joined()];
const computing = [...ready, order.run()];
const voted = [...computing, computed()];

const does = (effects: readonly Effect[]): string[] =>
  effects.map(({ kind, type }) => (type === "drop" ? "drop" : (kind ?? type)));

describe("an attempt", () => {
  const others = [{ step: 4 }, { attempt: 1 }, { epoch: 2 }];

  it.each(others)("is not ended by the result, the failure or the end of another: %j", (other) => {
    for (const event of [computed(other), errored(other), order.discard(other)]) {
      const replica = after(...computing);
      expect(replica.hear(event)).toMatchObject([{ type: "drop" }]);
      expect(replica.value).toBe("computing");
    }
    const replica = after(...voted);
    for (const event of [order.discard(other), order.apply(other)])
      expect(replica.hear(event)).toMatchObject([{ type: "drop" }]);
    expect(replica.value).toBe("voted");
    expect(does(replica.hear(order.discard()))).toEqual(["step.discard"]);
  });

  it.each([
    ["another epoch", { epoch: 4 }],
    ["an older version", { version: 3 }],
    ["another lineage", { lineage: 1 }],
  ])("of %s is not begun, neither first nor after a vote", (_, other) => {
    expect(after(...ready).hear(order.run(other))).toMatchObject([{ type: "drop" }]);
    expect(after(...voted).hear(order.run({ ...other, step: 6 }))).toMatchObject([{ type: "drop" }]);
  });

  it.each<[string, object, readonly string[]]>([
    ["the next step", { step: 6, attempt: 1 }, ["step.discard", "step.compute"]],
    ["the next attempt", { attempt: 3 }, ["step.discard", "step.compute"]],
    ["its own again", {}, ["step.voted"]],
    ["an older attempt", { attempt: 1 }, ["drop"]],
    ["a later attempt of an older step", { step: 4, attempt: 9 }, ["drop"]],
  ])("is followed by %s after the vote as it should be", (_, run, then) => {
    expect(does(after(...voted).hear(order.run(run)))).toEqual(then);
  });

  it("that is ordered again while it is computed changes nothing, and is no stale order", () => {
    expect(after(...computing).hear(order.run())).toEqual([]);
    expect(after(...computing).hear(order.run({ attempt: 3 }))).toMatchObject([{ type: "drop" }]);
  });

  it("that failed is voted against with all that is known of it, and nothing else", () => {
    const vote = { ...attempt, vote: "abort", finite: true, sections: [], cause: "no", missing: ["p1"] };
    const [plain] = after(...computing).hear(errored());
    expect(plain?.body).toStrictEqual(vote);
    const [bad] = after(...computing).hear(errored({ unreadable: [7] }));
    expect(bad?.body).toStrictEqual({ ...vote, unreadable: [7] });
    const late = after(...computing)
      .hear({ type: "xstate.after.step.policy.computing" })
      .at(-1);
    expect(late?.body).toStrictEqual({ ...vote, cause: "the step was not computed in time", missing: [] });
  });

  it("whose mesh was left is followed by none in the same epoch", () => {
    const replica = after(...computing, errored());
    expect(does(replica.hear(order.discard()))).toEqual(["step.discard"]);
    expect(replica.value).toBe("waiting");
    expect(replica.hear(order.run({ attempt: 3 }))).toMatchObject([{ type: "drop" }]);
    expect(does(replica.hear(order.mesh(3)))).toEqual(["drop"]);
    expect(does(replica.hear(order.mesh(4)))).toEqual(["mesh.open"]);
  });

  it("that is applied is asked for twice without harm, and ends with its own version only", () => {
    const replica = after(...voted, order.apply());
    expect(replica.hear(order.apply())).toEqual([]);
    for (const other of [
      { lineage: 1, version: 5 },
      { lineage: 2, version: 4 },
      { lineage: 2, version: 6 },
    ])
      expect(replica.hear({ type: "step.promoted", ...holds(other) })).toMatchObject([{ type: "drop" }]);
    const [held] = replica.hear({ type: "step.promoted", ...holds({ lineage: 2, version: 5 }) });
    expect(held).toMatchObject({ kind: "weights.held", body: { lineage: 2, version: 5 } });
    expect(replica.value).toBe("ready");
  });

  it("that voted says its vote again while nobody decides", () => {
    const replica = after(...voted);
    const again = { type: "xstate.after.step.policy.voted" };
    expect([does(replica.hear(again)), does(replica.hear(again))]).toEqual([["step.voted"], ["step.voted"]]);
    expect(replica.effects.filter(({ type }) => type === "timer.start").length).toBeGreaterThanOrEqual(4);
  });
});

describe("other weights", () => {
  it.each<[string, readonly object[], object, readonly string[]]>([
    ["of the same lineage wait while a step is computed", computing, order.pull({ lineage: 2, version: 9 }), ["drop"]],
    ["of an older lineage wait while a step is computed", computing, order.pull({ lineage: 1, version: 9 }), ["drop"]],
    ["of the same lineage are not made while a step is computed", computing, order.initialize(weights), ["drop"]],
    ["that it has are not pulled again after a vote", voted, order.pull(), ["drop"]],
    ["of an older lineage are not pulled after a vote", voted, order.pull({ lineage: 1, version: 9 }), ["drop"]],
    [
      "that are newer are pulled after a vote",
      voted,
      order.pull({ lineage: 2, version: 5 }),
      ["step.discard", "weights.pull"],
    ],
    [
      "of a newer lineage are pulled in place of a step",
      computing,
      order.pull({ lineage: 3, version: 0 }),
      ["step.discard", "mesh.abort", "weights.pull"],
    ],
  ])("%s", (_, before, event, then) => {
    expect(does(after(...before).hear(event))).toEqual(then);
  });

  it("are asked for in place of those on their way where either name differs", () => {
    const way = after(order.initialize({ lineage: 2, version: 4 }));
    expect(does(way.hear(order.initialize({ lineage: 2, version: 4 })))).toEqual(["drop"]);
    expect(does(way.hear(order.initialize({ lineage: 2, version: 5 })))).toEqual([
      "weights.abort",
      "weights.initialize",
    ]);
    expect(does(way.hear(order.initialize({ lineage: 3, version: 5 })))).toEqual([
      "weights.abort",
      "weights.initialize",
    ]);
    const pull = after(order.pull({ lineage: 2, version: 4 }));
    expect(does(pull.hear(order.pull({ lineage: 2, version: 5 })))).toEqual(["weights.abort", "weights.pull"]);
    expect(does(pull.hear(order.pull({ lineage: 3, version: 5 })))).toEqual(["weights.abort", "weights.pull"]);
  });

  it("have the whole time, however often others were wanted before", () => {
    const replica = after(order.initialize({ lineage: 2, version: 4 }));
    const timers = () => replica.effects.filter(({ type }) => type === "timer.start").length;
    expect(timers()).toBe(1);
    replica.hear(order.initialize({ lineage: 2, version: 5 }));
    expect(timers()).toBe(2);
  });

  it.each([
    ["pulled", order.pull, "weights.errored"],
    ["made", order.initialize, "weights.errored"],
  ] as const)("that can not be %s are named with the cause, and with the damage where there is any", (_, ask, type) => {
    const damage = { path: "step-4", reason: "torn" };
    expect(after(ask()).hear({ type, ...weights, cause: "no" })[0]?.body).toStrictEqual({ ...weights, cause: "no" });
    expect(after(ask()).hear({ type, ...weights, cause: "no", damage })[0]?.body).toStrictEqual({
      ...weights,
      ...{ cause: "no", damage },
    });
  });

  it("that are not there in time are named", () => {
    const [, late] = after(order.pull()).hear({ type: "xstate.after.pull.policy.syncing" });
    expect(late?.body).toStrictEqual({ ...weights, cause: "not there in time" });
    const [made] = after(order.initialize()).hear({ type: "xstate.after.initialize.policy.initializing" });
    expect(made?.body).toStrictEqual({ ...weights, cause: "not there in time" });
  });

  it("that it has are named to whoever wants them pulled, made or applied", () => {
    for (const event of [order.pull(), order.initialize(), order.apply(weights)])
      expect(after(...holding).hear(event)).toMatchObject([{ kind: "weights.held", body: weights }]);
  });

  it("are published and told of while they are held, and not others", () => {
    const replica = after(...holding);
    const publish = (version: object) => ({ type: "weights.publish", body: { ...version, parts: ["training"] } });
    const published = (version: object) => ({ type: "weights.published", ...holds(version), training: ["unix:p0"] });
    for (const other of [
      { lineage: 2, version: 5 },
      { lineage: 1, version: 4 },
    ]) {
      expect(replica.hear(publish(other))).toMatchObject([{ type: "drop", reason: "other weights" }]);
      expect(replica.hear(published(other))).toMatchObject([{ type: "drop", reason: "late" }]);
    }
    expect(does(replica.hear(publish(weights)))).toEqual(["weights.publish"]);
    expect(replica.hear(published(weights))).toMatchObject([{ kind: "weights.held", body: { training: ["unix:p0"] } }]);
  });
});

describe("a mesh", () => {
  it("that is ordered while weights are on their way is joined when they are there", () => {
    for (const epoch of [1, 3]) {
      const replica = after(order.initialize(), order.mesh(epoch));
      expect(replica.value).toBe("initializing");
      const made = { type: "weights.initialized", ...holds(weights), meta: { lineage: 2, tensors: [], digest: "t" } };
      expect(replica.hear(made)).toMatchObject([
        { kind: "weights.meta" },
        { kind: "weights.held" },
        { type: "mesh.open", body: { epoch } },
      ]);
    }
  });

  it("is joined or lost by what is said of its own epoch only", () => {
    for (const other of [2, 4]) {
      const replica = after(...holding, order.mesh());
      expect(replica.hear(joined(other))).toMatchObject([{ type: "drop" }]);
      const lost = { type: "mesh.errored", epoch: other, cause: "late", missing: [] };
      expect(replica.hear(lost)).toMatchObject([{ type: "drop" }]);
      expect(replica.value).toBe("building");
    }
  });

  it("is left for a newer one only", () => {
    const replica = after(...holding, order.mesh());
    expect(replica.hear(order.mesh(3))).toMatchObject([{ type: "drop" }]);
    expect(replica.hear(order.mesh(2))).toMatchObject([{ type: "drop" }]);
    const timers = () => replica.effects.filter(({ type }) => type === "timer.start").length;
    const before = timers();
    expect(does(replica.hear(order.mesh(4)))).toEqual(["mesh.abort", "mesh.open"]);
    expect(timers()).toBe(before + 1);
  });

  it("that stands is confirmed when it is ordered again, and an older one is not", () => {
    const replica = after(...ready);
    expect(replica.hear(order.mesh(3))[0]).toMatchObject({ kind: "mesh.built", body: { epoch: 3 } });
    expect(replica.hear(order.mesh(3))[0]?.body).toStrictEqual({ epoch: 3 });
    expect(replica.hear(order.mesh(2))).toMatchObject([{ type: "drop" }]);
  });

  it("that could not be joined is named with whom it missed, and in time", () => {
    const lost = { type: "mesh.errored", epoch: 3, cause: "late", missing: ["p1"] };
    const replica = after(...holding, order.mesh());
    expect(replica.hear(lost)[0]?.body).toStrictEqual({ epoch: 3, cause: "late", missing: ["p1"] });
    expect(replica.hear(order.mesh(3))).toMatchObject([{ type: "drop" }]);
    const [abort, late] = after(...holding, order.mesh()).hear({ type: "xstate.after.mesh.policy.building" });
    expect(abort).toMatchObject({ type: "mesh.abort", reason: "deadline" });
    expect(late?.body).toStrictEqual({ epoch: 3, cause: "not joined in time", missing: [] });
  });

  it("that was left for other weights is not taken up again with them", () => {
    const replica = after(...ready, order.run(), order.pull({ lineage: 3, version: 0 }));
    replica.hear({ type: "weights.pulled", ...holds({ lineage: 3, version: 0 }) });
    expect(replica.value).toBe("waiting");
    const kept = after(...ready, order.pull({ lineage: 2, version: 6 }));
    kept.hear({ type: "weights.pulled", ...holds({ lineage: 2, version: 6 }) });
    expect(kept.value).toBe("ready");
  });
});

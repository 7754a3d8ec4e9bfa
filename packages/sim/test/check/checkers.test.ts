import {
  CheckpointChecker,
  type Decision,
  Judge,
  MembershipChecker,
  OrderChecker,
  TrainingChecker,
  WeightsChecker,
} from "@muster/check/internal";
import { describe, expect, it } from "vitest";
import { Failpoints } from "../../src/faults/failpoints.ts";
import { SimDisk } from "../../src/plane/sim-disk.ts";
import { drawScenario } from "../../src/seed/draw-scenario.ts";
import { VirtualWorld } from "../../src/world/world.ts";
import { modelsOf } from "../support/models.ts";

const { config } = drawScenario(1, "quiet");
const sections = (digest: string) => [
  { name: "weights" as const, bytes: 4, digest },
  { name: "optimizer" as const, bytes: 8, digest },
];
const bytesOf = (value: number) => ({
  weights: new Uint8Array(4).fill(value),
  optimizer: new Uint8Array(8).fill(value),
});

/** Invariants that a history breaks. */
function broken(history: (judge: Judge) => void): readonly string[] {
  const judge = new Judge(new VirtualWorld(1));
  history(judge);
  return judge.violations.map(({ invariant }) => invariant);
}

const order = (term: number, to: string) =>
  ({ role: "controller", from: "controller", kind: "weights.pull", term, to }) as Parameters<
    MembershipChecker["accepted"]
  >[0];
const subject = "muster.sim.commands.policy-1.weights.pull";

function members(judge: Judge) {
  const checker = new MembershipChecker(judge, Number.POSITIVE_INFINITY);
  const { process } = modelsOf();
  const [one, two] = [process("policy-1", "policy"), process("policy-2", "policy")];
  checker.identified({ job: "sim", id: "policy-1", role: "policy", incarnation: "i1" }, one, 0);
  checker.identified({ job: "sim", id: "policy-2", role: "policy", incarnation: "i2" }, two, 0);
  return { checker, one, two };
}

describe("the checkers accuse a replica", () => {
  it("that obeys a lower term after a higher one (S3)", () => {
    const found = broken((judge) => {
      const { checker, one } = members(judge);
      checker.accepted(order(2, "i1"), subject, one);
      checker.accepted(order(1, "i1"), subject, one);
    });
    expect(found).toEqual(["S3"]);
  });

  it("that obeys an order for another life (S8)", () => {
    expect(
      broken((judge) => {
        const { checker, one } = members(judge);
        checker.accepted(order(1, "i0"), subject, one);
      }),
    ).toEqual(["S8"]);
  });

  it("that takes in what another said than the subject names (S35)", () => {
    expect(
      broken((judge) => {
        const { checker, one } = members(judge);
        checker.accepted({ ...order(1, "i1"), role: "rollout" }, subject, one);
      }),
    ).toEqual(["S35"]);
  });

  it("that joins an older epoch, takes another's rank, or sees other members (S6, S7, S8)", () => {
    const names = ["policy-1", "policy-2"];
    expect(
      broken((judge) => {
        const { checker, one } = members(judge);
        checker.joined(one, { epoch: 2, rank: 0, members: names });
        checker.joined(one, { epoch: 1, rank: 0, members: names });
      }),
    ).toEqual(["S6"]);
    expect(
      broken((judge) => members(judge).checker.joined(members(judge).two, { epoch: 1, rank: 0, members: names })),
    ).toEqual(["S7"]);
    expect(
      broken((judge) => {
        const { checker, one, two } = members(judge);
        checker.joined(one, { epoch: 1, rank: 0, members: names });
        checker.joined(two, { epoch: 1, rank: 1, members: ["policy-1", "policy-2", "policy-3"] });
      }),
    ).toEqual(["S7"]);
  });

  it("that reduces in an epoch it has not joined (S6), or from other weights than its peers (S14)", () => {
    const at = { epoch: 1, members: ["policy-1", "policy-2"] };
    expect(
      broken((judge) => {
        const { checker, one, two } = members(judge);
        checker.joined(one, { ...at, rank: 0 });
        checker.joined(two, { ...at, rank: 1 });
        checker.begun(one, bytesOf(1));
        checker.begun(two, bytesOf(2));
        checker.reducing(one, { epoch: 1, op: 0 });
        checker.reducing(two, { epoch: 1, op: 0 });
        checker.reducing(two, { epoch: 2, op: 1 });
      }),
    ).toEqual(["S14", "S6"]);
  });

  it("that lives and is no member long after the faults (L3)", () => {
    const state = {
      members: {},
      waiting: {},
      evictions: {},
      ending: null,
      stopped: false,
    } as Partial<Decision["after"]> as Parameters<MembershipChecker["checkAdmitted"]>[0];
    expect(broken((judge) => members(judge).checker.checkAdmitted(state, 20_000))).toEqual([]);
    expect(broken((judge) => members(judge).checker.checkAdmitted(state, 60_000))).toEqual(["L3", "L3"]);
  });
});

describe("the checkers accuse a sampler", () => {
  const told = (index: number) =>
    ({ kind: "groups.completed", body: { receipts: [{ step: 1, index }] } }) as Parameters<OrderChecker["told"]>[1];

  it("that begins a chunk while nobody has heard of two others, in one life (S20)", () => {
    const { process } = modelsOf();
    const one = process("rollout-1", "rollout");
    const begins = (judge: Judge): OrderChecker => {
      const checker = new OrderChecker(judge, config);
      checker.begins(one, ["1.0.0", "1.1.0"]);
      checker.begins(one, ["1.2.0"]);
      return checker;
    };
    expect(broken((judge) => begins(judge).begins(one, ["1.3.0"]))).toEqual(["S20"]);
    expect(
      broken((judge) => {
        const checker = begins(judge);
        checker.told(one, told(2));
        checker.begins(one, ["1.3.0"]);
        checker.told(one, told(1));
        checker.begins(one, ["1.4.0"]);
      }),
    ).toEqual(["S20"]);
    expect(
      broken((judge) => {
        const checker = begins(judge);
        checker.identified(one);
        checker.begins(one, ["1.3.0"]);
      }),
    ).toEqual([]);
  });
});

function decide(checker: WeightsChecker, before: unknown, after: unknown): void {
  checker.decided({ before: { weights: before }, after: { weights: after } } as Parameters<
    WeightsChecker["decided"]
  >[0]);
}

describe("the checkers accuse whoever holds weights", () => {
  const weights = (judge: Judge): WeightsChecker => {
    const checker = new WeightsChecker(judge);
    decide(checker, null, { lineage: 0, version: 0, sections: sections("a") });
    decide(checker, {}, { lineage: 0, version: 1, sections: sections("b") });
    return checker;
  };
  const held = (version: number, digest: string) => ({
    lineage: 0,
    version,
    sections: sections(digest),
    addresses: [],
    durationMs: 0,
    bytes: 0,
  });

  it("of another digest than was committed (S10), or of an older version than before (S9)", () => {
    expect(broken((judge) => weights(judge).held(held(1, "x"), "i1"))).toEqual(["S10"]);
    expect(
      broken((judge) => {
        const checker = weights(judge);
        checker.held(held(1, "b"), "i1");
        checker.held(held(0, "a"), "i1");
      }),
    ).toEqual(["S9"]);
  });

  it("that serves, restores or makes live what nobody committed (S13, S28, S22)", () => {
    const { process } = modelsOf();
    const one = process("policy-1", "policy");
    expect(broken((judge) => weights(judge).serving(one, 1, new Uint8Array(4)))).toEqual(["S13"]);
    expect(broken((judge) => weights(judge).restored(one, bytesOf(3)))).toEqual(["S28"]);
    expect(broken((judge) => weights(judge).promoting(one, bytesOf(3)))).toEqual(["S22"]);
  });

  it("that is not finite (S23)", () => {
    const { process } = modelsOf();
    const state = { weights: new Uint8Array(Float32Array.of(Number.NaN).buffer), optimizer: new Uint8Array(8) };
    expect(broken((judge) => weights(judge).promoting(process("policy-1", "policy"), state))).toContain("S23");
  });

  it("of a lineage that begins with other bytes than the last one had (S28)", () => {
    expect(
      broken((judge) => {
        decide(weights(judge), null, { lineage: 1, version: 1, sections: sections("z") });
      }),
    ).toEqual(["S28"]);
  });
});

describe("the checkers accuse a job", () => {
  it("that learns from what nobody completed (S21)", () => {
    const { process } = modelsOf();
    const sample = { tokens: Int32Array.of(1), promptLength: 1, logprobs: Float32Array.of(-1), advantage: 1 };
    const found = broken((judge) => new TrainingChecker(judge, config).learning(process("policy-1", "policy"), sample));
    expect(found).toEqual(["S21"]);
  });

  it("whose checkpoint was reported and cannot be read (S25), and is gone at the end or after a loss of power (S26, S29)", async () => {
    const judge = new Judge(new VirtualWorld(1));
    const checker = new CheckpointChecker(judge, new SimDisk(new Failpoints([], () => {})), () => true);
    const body = { step: 1, lineage: 0, version: 1, path: "/none", manifestDigest: "0", bytes: 0, durationMs: 0 };
    await checker.saved(body);
    await checker.verifyAtEnd();
    await checker.verifyAfterPowerLoss();
    expect(judge.violations.map(({ invariant }) => invariant)).toEqual(["S25", "S26", "S29"]);
  });
});

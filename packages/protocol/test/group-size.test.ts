import { describe, expect, it } from "vitest";
import {
  bodyBytesMax,
  encodeMessage,
  flawOf,
  type GroupShape,
  groupBytesMax,
  type Message,
  pack,
  packedBytesAtMost,
  payloadBytesMax,
  type Trajectory,
  type TrajectoryGroup,
  toGroupsBatch,
} from "../src/index.ts";
import { groupsMessageBytesMax } from "../src/internal.ts";
import { sampleMessage } from "./samples.ts";

type Sizes = { groupSize?: number; fanOut?: number; maxNewTokens?: number; maxContext?: number; stalenessMax?: number };

/** The part of a configuration that sizes depend on. */
function shapeOf(sizes: Sizes, generate: string | null = null): GroupShape {
  const { groupSize = 8, fanOut = 1, maxNewTokens = 16, maxContext = 36, stalenessMax = 0 } = sizes;
  return {
    batch: { groupsPerStep: 1, groupSize, minibatches: 1, microShards: 1 },
    rollout: { generate, fanOut, ranks: 1 },
    model: { vocab: 2, maxContext },
    sampling: { temperature: 1, maxNewTokens },
    stalenessMax,
  };
}

/** A group of a shape whose numbers take as many bytes as they can. */
function groupOf(shape: GroupShape, make: () => Trajectory): TrajectoryGroup {
  const large = 2 ** 32;
  const size = shape.batch.groupSize * shape.rollout.fanOut;
  return {
    ...{ groupId: `${large}.4095`, step: large, index: 4_095, attempt: large },
    trajectories: Array.from({ length: size }, make),
  };
}

/** A response as long as it may be, a token of it from each version that may be in it, the rest from the newest. */
function longest({ rollout, model, sampling, stalenessMax }: GroupShape): Trajectory {
  const response = rollout.generate ? model.maxContext - 1 : Math.min(sampling.maxNewTokens, model.maxContext - 1);
  const runs = Math.min(1_024, stalenessMax + 1, response);
  return {
    tokens: new Int32Array(model.maxContext).fill(-1),
    promptLength: model.maxContext - response,
    logprobs: new Float32Array(response).fill(-0.1),
    lossMask: new Uint8Array(response).fill(1),
    reward: 0.1,
    status: "truncated",
    segments: Array.from({ length: runs }, (_, i) => ({
      version: 2 ** 32 + i,
      from: i,
      to: i === runs - 1 ? response : i + 1,
    })),
  };
}

/** A trajectory that came to nothing, with texts as long as they may be. */
const failed = (text: string) => (): Trajectory => ({
  ...{ tokens: Int32Array.of(0, 0), promptLength: 1, logprobs: Float32Array.of(0), lossMask: Uint8Array.of(0) },
  ...{ reward: 0, status: "aborted", segments: [] },
  error: { kind: "non_finite", name: text.slice(0, 200), message: text.slice(0, 2_000), stack: text.slice(0, 4_000) },
});

/** Bytes of a message with these groups. */
function bytesOf(groups: readonly TrajectoryGroup[]): number {
  const message: Message<"groups.batch"> = {
    ...(sampleMessage("groups.batch") as Message<"groups.batch">),
    body: toGroupsBatch(groups),
  };
  return encodeMessage(message).length;
}

const envelopeBytes = payloadBytesMax - groupsMessageBytesMax;

const shapes: [string, Sizes, string | null][] = [
  ["few short responses", {}, null],
  ["two responses of thousands of tokens", { groupSize: 2, maxNewTokens: 40_000, maxContext: 42_000 }, null],
  ["many responses", { groupSize: 256 }, null],
  ["as many as a group may have", { groupSize: 64, fanOut: 64, maxNewTokens: 2, maxContext: 4 }, null],
  ["responses of a module", { groupSize: 16, maxContext: 4_000 }, "/module.mjs"],
  ["responses of several versions", { groupSize: 4, maxNewTokens: 2_000, maxContext: 4_000, stalenessMax: 900 }, null],
];

describe("the largest group of a job", () => {
  it.each(shapes)("is not underestimated with %s", (_, sizes, generate) => {
    const shape = shapeOf(sizes, generate);
    const bytes = bytesOf([groupOf(shape, () => longest(shape))]);
    expect(bytes).toBeLessThanOrEqual(groupBytesMax(shape) + envelopeBytes);
  });

  it("is read by whoever reads the groups of its job when every response is judged at length, too", () => {
    const limits = { messageBytes: 1, groupsBytes: 1 } as Parameters<typeof bodyBytesMax>[0]["limits"];
    const shape = shapeOf({ groupSize: 128 });
    const judged = {
      components: Array.from({ length: 16 }, (_, i) => ({ name: String(i).padStart(48, "n"), value: 0.1 })),
      metadata: "答".repeat(682),
    };
    const groups = [groupOf(shape, () => ({ ...longest(shape), ...judged }))];
    expect(flawOf("groups.batch", toGroupsBatch(groups))).toBeNull();
    const { length } = pack(toGroupsBatch(groups));
    expect(length).toBeGreaterThan(128 * 3_000);
    expect(length).toBeGreaterThan(groupBytesMax(shape));
    expect(length).toBeLessThanOrEqual(packedBytesAtMost(groups));
    expect(packedBytesAtMost(groups)).toBeLessThanOrEqual(bodyBytesMax({ ...shape, limits }));
  });

  it("is estimated within a fifth where its tokens are what it is made of", () => {
    const shape = shapeOf({ groupSize: 2, maxNewTokens: 40_000, maxContext: 42_000 });
    const bytes = bytesOf([groupOf(shape, () => longest(shape))]);
    expect(bytes).toBeGreaterThan(0.8 * groupBytesMax(shape));
  });

  it.each(shapes)("is not underestimated when all of it failed, in whatever script, with %s", (_, sizes, generate) => {
    const shape = shapeOf(sizes, generate);
    for (const text of ["x", "答", "🙈"]) {
      const bytes = bytesOf([groupOf(shape, failed(text.repeat(4_000)))]);
      expect(bytes).toBeLessThanOrEqual(groupBytesMax(shape) + envelopeBytes);
    }
  });
});

describe("what groups take at most", () => {
  it.each(shapes)("is not less than what they take packed, with %s", (_, sizes, generate) => {
    const shape = shapeOf(sizes, generate);
    const makes = [() => longest(shape), failed("x".repeat(4_000)), failed("答".repeat(4_000))];
    for (const groups of makes.map((make) => [groupOf(shape, make), groupOf(shape, make)])) {
      const body = toGroupsBatch(groups);
      expect(pack(body).length).toBeLessThanOrEqual(packedBytesAtMost(groups));
      expect(pack(body).length).toBeLessThanOrEqual(packedBytesAtMost(body.groups));
    }
  });
});

describe("the error of a trajectory", () => {
  const errorIn = (size: number, text: string) => {
    const [group] = toGroupsBatch([groupOf(shapeOf({ groupSize: size }), failed(text))]).groups;
    return group?.trajectories[0]?.error;
  };

  it("stays whole in a group of usual size", () => {
    const text = "answer ".repeat(500);
    expect(errorIn(8, text)).toEqual(failed(text)().error);
  });

  it("is cut between characters where a group has no room for all of it", () => {
    const { message = "" } = errorIn(256, "🙈".repeat(2_000)) ?? {};
    expect(message).toMatch(/^🙈+…$/u);
    const bytes = new TextEncoder().encode(message).length;
    expect(bytes).toBeLessThanOrEqual(512);
    expect(bytes).toBeGreaterThan(504);
  });
});

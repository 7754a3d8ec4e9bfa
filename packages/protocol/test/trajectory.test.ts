import { rewardMax } from "@muster/base";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  decodeMessage,
  encodeMessage,
  fromGroupsBatch,
  type Message,
  type Trajectory,
  type TrajectoryGroup,
  toGroupsBatch,
} from "../src/index.ts";
import { sampleMessage } from "./samples.ts";

/** A prompt of 2 tokens and a response of 3, sampled by versions 4 and 5. */
const whole: Trajectory = {
  tokens: Int32Array.of(7, 8, 9, 10, 11),
  promptLength: 2,
  logprobs: Float32Array.of(-0.5, -1, -2.25),
  lossMask: Uint8Array.of(1, 0, 1),
  reward: 1,
  status: "completed",
  segments: [
    { version: 4, from: 0, to: 1 },
    { version: 5, from: 1, to: 3 },
  ],
};

const groupOf = (...trajectories: Trajectory[]): TrajectoryGroup => ({
  groupId: "13.4",
  step: 13,
  index: 4,
  attempt: 0,
  trajectories,
});

/** What comes out at the other end of the wire. */
function sent(...groups: TrajectoryGroup[]): readonly TrajectoryGroup[] | string {
  const message = { ...sampleMessage("groups.batch"), body: toGroupsBatch(groups) } as Message<"groups.batch">;
  const received = decodeMessage(encodeMessage(message)) as Message<"groups.batch">;
  return fromGroupsBatch(received.body);
}

describe("a group of trajectories", () => {
  it("comes back as it was sent", () => {
    expect(sent(groupOf(whole))).toEqual([groupOf(whole)]);
  });

  it("keeps an aborted placeholder with its original error", () => {
    const aborted: Trajectory = {
      ...whole,
      tokens: whole.tokens.slice(0, 2),
      logprobs: new Float32Array(),
      lossMask: new Uint8Array(),
      reward: 0,
      status: "aborted",
      segments: [],
      error: { name: "RangeError", message: "out of range" },
    };
    expect(sent(groupOf(whole, aborted))).toEqual([groupOf(whole, aborted)]);
  });

  it("keeps the bits of numbers that compare unequal to themselves or alike", () => {
    const odd = { ...whole, logprobs: Float32Array.of(-0, Number.NEGATIVE_INFINITY, Number.NaN) };
    const received = sent(groupOf(odd)) as readonly TrajectoryGroup[];
    const bits = received[0]?.trajectories[0]?.logprobs as Float32Array;
    expect(new Uint8Array(bits.buffer)).toEqual(new Uint8Array(odd.logprobs.buffer));
  });

  it("carries a view into a larger buffer as that view alone", () => {
    const pool = Int32Array.of(0, 0, 7, 8, 9, 10, 11, 0);
    expect(sent(groupOf({ ...whole, tokens: pool.subarray(2, 7) }))).toEqual([groupOf(whole)]);
  });

  it("comes back as it was sent, whatever is in it", () => {
    const trajectory = fc
      .record({
        prompt: fc.array(fc.nat(2 ** 31 - 1), { maxLength: 6 }),
        response: fc.array(
          fc.record({ token: fc.nat(2 ** 31 - 1), logprob: fc.float(), mask: fc.constantFrom(0, 1) }),
          {
            maxLength: 12,
          },
        ),
        cuts: fc.array(fc.nat(12), { maxLength: 4 }),
        reward: fc.double({ min: -rewardMax, max: rewardMax, noNaN: true }),
        status: fc.constantFrom("completed" as const, "truncated" as const),
      })
      .map(({ prompt, response, cuts, reward, status }): Trajectory => {
        const ends = [...new Set([...cuts.filter((cut) => cut < response.length), response.length])].sort(
          (a, b) => a - b,
        );
        return {
          tokens: Int32Array.from([...prompt, ...response.map(({ token }) => token)]),
          promptLength: prompt.length,
          logprobs: Float32Array.from(response.map(({ logprob }) => logprob)),
          lossMask: Uint8Array.from(response.map(({ mask }) => mask)),
          // Whole numbers travel as integers, so a reward of -0 arrives as 0; no formula tells them apart.
          reward: reward + 0,
          status,
          segments: ends.map((to, i) => ({ version: i, from: ends[i - 1] ?? 0, to })),
        };
      });
    fc.assert(
      fc.property(fc.array(trajectory, { minLength: 1, maxLength: 4 }), (trajectories) => {
        expect(sent(groupOf(...trajectories))).toEqual([groupOf(...trajectories)]);
      }),
      { seed: 31_337, numRuns: 300 },
    );
  });

  const flaws: [string, Partial<Trajectory>, RegExp][] = [
    ["a prompt longer than its tokens", { promptLength: 6 }, /prompt is longer/],
    ["a log-prob too few", { logprobs: Float32Array.of(-1, -1) }, /2 log-probs for 3/],
    ["a log-prob too many", { logprobs: new Float32Array(4) }, /4 log-probs for 3/],
    ["a mask too short", { lossMask: Uint8Array.of(1) }, /loss mask of 1 for 3/],
    ["no segments", { segments: [] }, /do not tile/],
    ["a gap at the start", { segments: [{ version: 4, from: 1, to: 3 }] }, /do not tile/],
    ["a gap at the end", { segments: [{ version: 4, from: 0, to: 2 }] }, /do not tile/],
    ["a segment beyond the end", { segments: [{ version: 4, from: 0, to: 4 }] }, /do not tile/],
    [
      "a gap between segments",
      {
        segments: [
          { version: 4, from: 0, to: 1 },
          { version: 4, from: 2, to: 3 },
        ],
      },
      /do not tile/,
    ],
    [
      "an overlap of segments",
      {
        segments: [
          { version: 4, from: 0, to: 2 },
          { version: 4, from: 1, to: 3 },
        ],
      },
      /do not tile/,
    ],
    [
      "a segment that runs backwards",
      {
        segments: [
          { version: 4, from: 0, to: 3 },
          { version: 4, from: 3, to: 2 },
        ],
      },
      /do not tile/,
    ],
    [
      "a version that goes down",
      {
        segments: [
          { version: 5, from: 0, to: 1 },
          { version: 4, from: 1, to: 3 },
        ],
      },
      /do not tile/,
    ],
    ["a reward that is not a number", { reward: Number.NaN }, /reward NaN is not between/],
    ["a reward of 1.7e308", { reward: 1.7e308 }, /reward 1.7e\+308 is not between/],
    ["an endless reward", { reward: Number.POSITIVE_INFINITY }, /reward Infinity is not/],
  ];

  it.each(flaws)("with %s is refused whole, by its id", (_, flaw, reason) => {
    const flawed = { ...groupOf(whole, { ...whole, ...flaw }), groupId: "13.5" };
    const result = fromGroupsBatch(toGroupsBatch([groupOf(whole), flawed]));
    expect(result).toMatch(reason);
    expect(result).toMatch(/^group 13\.5: /);
  });

  it("is read from views into a shared buffer as those views alone", () => {
    const pool = Buffer.alloc(64, 0xee);
    const place = (at: number, view: ArrayBufferView): Buffer<ArrayBuffer> => {
      const part = pool.subarray(at, at + view.byteLength);
      part.set(new Uint8Array(view.buffer, view.byteOffset, view.byteLength));
      return part;
    };
    const body = toGroupsBatch([groupOf(whole)]);
    const { components: _, ...rest } = whole;
    const trajectory = {
      ...rest,
      segments: [...whole.segments],
      tokens: place(1, whole.tokens),
      logprobs: place(25, whole.logprobs),
      lossMask: place(41, whole.lossMask),
    };
    const read = fromGroupsBatch({ groups: body.groups.map((group) => ({ ...group, trajectories: [trajectory] })) });
    pool.fill(0);
    expect(read).toEqual([groupOf(whole)]);
  });

  it("whose bytes are no whole numbers is refused", () => {
    const body = toGroupsBatch([groupOf(whole)]);
    const [first] = body.groups[0]?.trajectories ?? [];
    const cut = { ...first, tokens: first?.tokens.slice(1) } as NonNullable<typeof first>;
    expect(fromGroupsBatch({ groups: [{ ...groupOf(), trajectories: [cut] }] })).toMatch(/not a multiple of 4/);
  });
});

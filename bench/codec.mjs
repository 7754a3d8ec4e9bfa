/** Messages ⇄ bytes against JSON of the same object, and the share of validation in decoding. */
import { decodeMessage, encodeMessage, toGroupsBatch, unpack } from "@muster/protocol";
import { compare } from "./lib/compare.mjs";

export const about = "messages to bytes and back against JSON";

const envelope = {
  v: /** @type {const} */ (1),
  id: "imwq56uhlf070ce4e.1234",
  job: "dates-20250101-120000",
  from: "rollout-0",
  role: /** @type {const} */ ("rollout"),
  incarnation: "imwq56uhlf070ce4e",
  seq: 1234,
  term: 1,
  epoch: 1,
  deadlineMs: null,
  sentAtMs: 1_735_732_800_000,
};

/** The receipts of a chunk of 16 groups. */
function completed() {
  const receipts = Array.from({ length: 16 }, (_, index) => {
    return {
      step: 7,
      index,
      attempt: 0,
      streamSeq: 300,
      version: 6,
      completed: 8,
      aborted: 0,
      tokens: 88,
      rewardSum: 5,
    };
  });
  const kind = /** @type {const} */ ("groups.completed");
  return { ...envelope, kind, body: { leaseId: "7.3", receipts, causes: [], durationMs: 51.25 } };
}

/** A chunk of 16 groups of 8 responses with all their tokens. */
function batch() {
  const groups = Array.from({ length: 16 }, (_, index) => ({
    groupId: `7.${index}`,
    step: 7,
    index,
    attempt: 0,
    trajectories: Array.from({ length: 8 }, (_, sample) => ({
      tokens: Int32Array.from({ length: 31 }, (_, i) => (i * 7 + sample) % 43),
      promptLength: 20,
      logprobs: Float32Array.from({ length: 11 }, (_, i) => -0.01 * i - 0.1 * sample),
      lossMask: new Uint8Array(11).fill(1),
      reward: sample % 2,
      status: /** @type {const} */ ("completed"),
      segments: [{ version: 6, from: 0, to: 11 }],
    })),
  }));
  const kind = /** @type {const} */ ("groups.batch");
  return { ...envelope, kind, body: toGroupsBatch(groups) };
}

/** JSON has no bytes; numbers in an array are what it would carry. @param {string} _key @param {unknown} value */
const plain = (_key, value) => (ArrayBuffer.isView(value) ? Array.from(/** @type {Uint8Array} */ (value)) : value);

/** @param {() => unknown} once */
const repeat = (once) => (/** @type {number} */ pieces) => {
  for (let i = 0; i < pieces; i++) once();
};

/** @param {ReturnType<typeof completed> | ReturnType<typeof batch>} message */
async function rowsOf(message) {
  const bytes = encodeMessage(message);
  const object = JSON.parse(JSON.stringify(message, plain));
  const text = JSON.stringify(object);
  const { kind } = message;
  const size = {
    name: `${kind}: size in bytes`,
    unit: "bytes",
    against: "JSON",
    ours: bytes.length,
    reference: text.length,
  };
  return [
    { ...size, ratio: bytes.length / text.length, spread: 0 },
    await compare({
      name: `${kind}: encode`,
      against: "JSON.stringify",
      ours: repeat(() => encodeMessage(message)),
      reference: repeat(() => Buffer.from(JSON.stringify(object))),
    }),
    await compare({
      name: `${kind}: decode and validate`,
      against: "JSON.parse",
      ours: repeat(() => decodeMessage(bytes)),
      reference: repeat(() => JSON.parse(text)),
    }),
    await compare({
      name: `${kind}: decode and validate`,
      against: "decode alone",
      ours: repeat(() => decodeMessage(bytes)),
      reference: repeat(() => unpack(bytes)),
    }),
  ];
}

export async function* run() {
  yield* await rowsOf(completed());
  yield* await rowsOf(batch());
}

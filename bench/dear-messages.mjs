/**
 * `node bench/dear-messages.mjs [seed]`: hostile messages of up to 1 MiB, decoded as the controller decodes reports, and the dearest of them by time.
 * Whatever takes longer than 10 ms deserves a bound in `packages/protocol/src/scan.ts`. With `--unbounded` they are only unpacked: what the bounds save.
 */
import { decodeSealed, narrowBounds, pack, unpack, unseal } from "@muster/protocol";

const kinds = ["groups.completed", "groups.returned", "step.voted", "weights.meta", "mesh.failed", "heartbeat.beat"];
const fields = ["receipts", "items", "unreadable", "tensors", "missing", "sections", "causes", "addresses", "body"];
const bytesMax = 1024 * 1024;
const rounds = 400;

const seed = Number(process.argv.find((text) => /^\d+$/.test(text)) ?? 1);
const isUnbounded = process.argv.includes("--unbounded");
let state = seed;
/** @param {number} max */
const draw = (max) => {
  state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
  return state % max;
};

/** Packed by hand, so that it may be whatever no writer would write. @param {number} depth @param {number} room @returns {Buffer} */
function value(depth, room) {
  const leaf = [0, -1, "", "x".repeat(draw(200)), null, 2 ** 53, 0.1, new Uint8Array(draw(200)), "理".repeat(draw(60))];
  if (depth === 0) return Buffer.from(pack(leaf[draw(leaf.length)]));
  const wanted = [1, 16, 64, 4_096, 65_535][draw(5)] ?? 1;
  const inner = value(depth - 1, room / 2);
  const isMap = draw(2) === 0;
  const count = Math.max(1, Math.min(wanted, Math.floor(room / (inner.length + (isMap ? 12 : 0)))));
  const parts = Array.from({ length: count }, (_, i) =>
    isMap ? [Buffer.from(pack(`k${i}-${draw(9_999)}`)), inner] : inner,
  );
  return Buffer.concat([Buffer.of(isMap ? 0xde : 0xdc, count >> 8, count & 0xff), ...parts.flat()]);
}

/** A whole envelope around it: its last field is the body. */
function message() {
  const envelope = { v: 1, id: "a.1", job: "dates", from: "rollout-0", role: "rollout", incarnation: "a", seq: 1 };
  const rest = { term: 0, epoch: 0, deadlineMs: null, sentAtMs: 0, kind: kinds[draw(kinds.length)] };
  const whole = Buffer.from(pack({ ...envelope, ...rest, body: { [fields[draw(fields.length)] ?? ""]: 0 } }));
  return Buffer.concat([whole.subarray(0, -1), value(1 + draw(4), bytesMax - 1024)]);
}

/** @param {Uint8Array} data */
function timed(data) {
  const startedMs = performance.now();
  let outcome = "decoded";
  try {
    if (isUnbounded) unpack(data);
    else unseal(decodeSealed(data, narrowBounds));
  } catch (error) {
    outcome = error instanceof Error ? error.message.slice(0, 100) : String(error);
  }
  return { ms: performance.now() - startedMs, bytes: data.length, outcome };
}

// The first ones pay for the compiler.
for (let i = 0; i < 50; i++) timed(pack({ kind: "nothing", body: [i] }));
const results = [];
for (let i = 0; i < rounds; i++) {
  const data = Uint8Array.from(message());
  if (data.length <= bytesMax) results.push(timed(data));
}
results.sort((a, b) => b.ms - a.ms);
console.log(`${results.length} hostile messages, seed ${seed}; the dearest:`);
for (const { ms, bytes, outcome } of results.slice(0, 5))
  console.log(`${ms.toFixed(1)} ms  ${bytes} bytes  ${outcome}`);

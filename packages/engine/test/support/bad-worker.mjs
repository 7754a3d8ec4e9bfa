// A worker from the pages of the protocol alone, which misbehaves in the way that its argument names.
import { spawn } from "node:child_process";
import { openSync, readSync, truncateSync, writeSync } from "node:fs";
import { frameOf, hear, say, write } from "./frames.mjs";

const [mode = "good"] = process.argv.slice(2);

const tensor = { name: "one", dtype: "f32", shape: [4], offsetBytes: 0 };
const tables = {
  overlap: [tensor, { ...tensor, name: "two", offsetBytes: 8 }],
  gap: [tensor, { ...tensor, name: "two", offsetBytes: 20 }],
  overflow: [{ ...tensor, shape: [2 ** 40, 2 ** 40] }],
  dtype: [{ ...tensor, dtype: "f4" }],
  repeated: [tensor, { ...tensor, offsetBytes: 16 }],
  name: [{ ...tensor, name: "__proto__" }],
  empty: [],
  negative: [{ ...tensor, shape: [-4] }],
  endless: [{ ...tensor, dtype: "f8_e4m3", shape: [2 ** 41] }],
  wide: [{ ...tensor, dtype: "f8_e4m3", shape: [2 ** 30 + 8] }],
};
const hello = ({ vocab, maxContext }) => ({
  type: "hello",
  protocol: mode === "newer" ? 2 : 1,
  roles: ["policy", "rollout"],
  build: "bad-1",
  modelId: "bad",
  vocab,
  maxContext,
  tensors: tables[mode] ?? [tensor],
  optimizerBytes: { "large-state": 2 ** 32 + 2 ** 20, huge: 2 ** 46, roomless: 2 ** 44 }[mode] ?? 8,
  deterministic: true,
});

const rowsOf = (count) => Array.from({ length: count }, (_, i) => ({ ...tensor, name: `t${i}`, offsetBytes: 16 * i }));
/** What comes after a hello that says how many rows its table has, and has none. */
const pages = {
  paged: { tensorRows: 3, pages: [rowsOf(3).slice(0, 2), rowsOf(3).slice(2)] },
  "page-gap": { tensorRows: 3, pages: [rowsOf(3).slice(0, 1), rowsOf(3).slice(2)] },
  "page-beyond": { tensorRows: 2, pages: [rowsOf(3)] },
  "page-empty": { tensorRows: 2, pages: [[]] },
  "page-missing": { tensorRows: 3, pages: [rowsOf(2)] },
  "page-huge": { tensorRows: 200_001, pages: [] },
  "page-and-rows": { tensorRows: 1, tensors: [tensor], pages: [] },
  many: { tensorRows: 200_000, pages: Array.from({ length: 40 }, (_, i) => manyRows(5_000 * i, 5_000)) },
};

function manyRows(from, count) {
  return Array.from({ length: count }, (_, i) => ({
    name: `model.layers.${(from + i) % 61}.mlp.experts.${Math.floor((from + i) / 61)}.gate_proj.weight`,
    dtype: "bf16",
    shape: [1, 1],
    offsetBytes: 2 * (from + i),
  }));
}

/** A worker that adds has these bytes at first. */
const sections = [
  ["weights", 0],
  ["optimizer", 100],
];
const counted = (name, from) => Uint8Array.from({ length: name === "weights" ? 16 : 8 }, (_, i) => from + i);

const files = new Map();
/** Byte of the last element of a gradient of more elements than an array may have. */
const lastOfWide = 4 * (2 ** 30 + 7);
const results = {
  attach: ({ regions }) => {
    for (const { name, path } of regions) files.set(name, { fd: openSync(path, "r+"), path });
    return {};
  },
  initialize: () => {
    if (mode === "cuts-state") truncateSync(`/proc/self/fd/${files.get("optimizer").fd}`, 5);
    if (mode === "large-state") writeSync(files.get("optimizer").fd, Uint8Array.of(7), 0, 1, 2 ** 32 + 2 ** 20 - 1);
    if (mode === "adds") for (const [name, from] of sections) writeSync(files.get(name).fd, counted(name, from), 0);
    return {};
  },
  generate: ({ requests }) => {
    const total = requests.reduce((sum, { n }) => sum + n, 0);
    const length = mode === "long-response" ? 1000 : 1;
    const lengths = Int32Array.from({ length: total }, () => length);
    const fd = files.get("outputs").fd;
    writeSync(fd, new Uint8Array(lengths.buffer), 0, lengths.byteLength, 0);
    writeSync(fd, new Uint8Array(total).fill(1), 0, total, 8192);
    writeSync(fd, new Uint8Array(4 * total * length), 0, 4 * total * length, 16384);
    const token = mode === "wild-token" ? 1_000_000 : 1;
    writeSync(fd, new Uint8Array(Int32Array.from({ length: total }, () => token).buffer), 0, 4 * total, 16384);
    const place = (dtype, offsetBytes, length) => ({ dtype, offsetBytes, length });
    const arrays = {
      lengths: place("i32", mode === "outside" ? 2 ** 40 : 0, total),
      finishes: place("u8", 8192, total),
      tokens: place("i32", 16384, total * length),
      logprobs: place("f32", 16384 + 4096, total * length),
    };
    return { version: mode === "other-version" ? 99 : version, arrays };
  },
  updateWeights: (params) => {
    version = params.version;
    return {};
  },
  accumulate: () => {
    if (mode === "cuts") truncateSync(`/proc/self/fd/${files.get("gradient").fd}`, 0);
    if (mode === "wide")
      writeSync(files.get("gradient").fd, new Uint8Array(Float32Array.of(7).buffer), 0, 4, lastOfWide);
    return { tokens: mode === "stats" ? -1 : 1, clipped: 0, klSum: 0, entropySum: 0, lossSum: 0 };
  },
  stage: () => {
    if (mode === "adds")
      for (const [name] of sections) {
        const bytes = counted(name, 0);
        readSync(files.get(name).fd, bytes, 0, bytes.length, 0);
        writeSync(
          files.get(name).fd,
          bytes.map((byte) => byte + 1),
          0,
          bytes.length,
          0,
        );
      }
    const last = new Float32Array(1);
    if (mode === "wide") readSync(files.get("gradient").fd, new Uint8Array(last.buffer), 0, 4, lastOfWide);
    return { gradNorm: mode === "no-norm" ? null : mode === "wide" ? last[0] : 1, finite: true };
  },
};
let version = null;
const hoard = [];

function greet(message) {
  const paged = pages[mode];
  if (!paged) return say(hello(message));
  const { tensors, pages: all, ...rest } = { ...hello(message), tensors: undefined, ...paged };
  say({ ...rest, ...(tensors ? { tensors } : {}) });
  for (const rows of all) say({ type: "tensors", rows });
}

function answer({ id, method, params }) {
  const isWork = ["generate", "accumulate"].includes(method);
  if (mode === "exits" && isWork) {
    process.stderr.write("CUDA error: device-side assert triggered\n");
    process.exit(7);
  }
  if (mode === "silent" && isWork) return process.stderr.write(`asked ${method}\n`);
  if (mode === "long-update" && method === "stage") return process.stderr.write("asked stage\n");
  if (mode === "second-fails" && method === "updateWeights" && version !== null)
    return say({ type: "failure", id, kind: "failed", message: "no memory for other weights" });
  if (mode === "begin-fails" && method === "begin")
    return say({ type: "failure", id, kind: "failed", message: "no memory for a candidate" });
  if (mode === "other-request" && isWork) return say({ type: "reply", id: id + 40, result: {} });
  if (mode === "garbage" && isWork) return write(Buffer.from("Loading checkpoint shards: 100%\n"));
  if (mode === "no-json" && isWork) return write(frameOf("{nothing"));
  if (mode === "hangs" && isWork) for (;;);
  if (mode === "grows" && isWork) {
    setInterval(() => hoard.push(Buffer.alloc(32 * 2 ** 20, 1)), 10);
    return;
  }
  if (mode === "unknown-message" && isWork) return say({ type: "hurrah", id });
  let result;
  try {
    result = results[method]?.(params) ?? {};
  } catch (error) {
    return say({ type: "failure", id, kind: "failed", message: String(error) });
  }
  say({ type: "reply", id, result });
  if (mode === "twice" && isWork) say({ type: "reply", id, result: {} });
}

if (mode === "forks")
  // One in a session of its own, and one with an empty environment, too.
  for (const given of [{ argv0: "fork" }, { argv0: `BAD_WORKER=${mode}`, env: {} }])
    spawn("sleep", ["600"], { ...given, detached: true, stdio: "ignore" }).unref();
if (mode === "no-start") process.exit(3);

hear({
  hello(message) {
    if (mode === "no-hello") return;
    if (mode === "refuses") say({ type: "refusal", message: "a vocabulary of 43 is too small for me" });
    else if (mode === "chatty") write(Buffer.from("Hello from the library!\n"));
    else greet(message);
  },
  message(message) {
    if (message.type === "request") answer(message);
    else if (message.type === "ping") say({ type: "pong", id: message.id });
    else if (message.type === "cancel" && mode !== "silent")
      say({ type: "failure", id: message.id, kind: "cancelled", message: "" });
  },
  end: () => mode !== "forks" && process.exit(0),
});

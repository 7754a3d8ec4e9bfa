// A reward worker from the pages of the protocol alone. The reward of a response is its length; what a response says else, it does.
import { existsSync, openSync, readSync, writeFileSync } from "node:fs";
import { hear, say, write } from "./frames.mjs";

const [mode = "good", mark = ""] = process.argv.slice(2);
const isNext = mode === "slow-next" && existsSync(mark);
if (mode === "slow-next") writeFileSync(mark, "");
const hoard = [];
let fd = 0;
let requests = 0;

function questionsOf({ trajectories, arrays }) {
  const bytesOf = ({ offsetBytes }, bytes) => {
    const into = Buffer.alloc(bytes);
    readSync(fd, into, 0, bytes, offsetBytes);
    return into;
  };
  const sizes = bytesOf(arrays.questionBytes, 4 * trajectories);
  const texts = bytesOf(arrays.questions, arrays.questions.length);
  let at = 0;
  return Array.from({ length: trajectories }, (_, i) => {
    const from = at;
    at += sizes.readInt32LE(4 * i);
    return JSON.parse(texts.toString("utf8", from, at)).responseText;
  });
}

const scoreOf = (text) => {
  if (mode === "counts") return { reward: requests };
  if (mode === "errors") return { error: "no such row" };
  if (mode === "texts") return { reward: "1" };
  if (mode === "no-empty" && text === "") process.exit(5);
  if (text === "batch-size") return { reward: asked };
  if (text === "requests") return { reward: requests };
  if (text === "error") return { error: "no such row" };
  if (text === "null") return { reward: null };
  if (text === "shape") return "fine";
  return { reward: text.length, more: "ignored" };
};
let asked = 0;

function score(id, params) {
  const texts = questionsOf(params);
  asked = texts.length;
  requests += 1;
  const has = (word) => texts.includes(word);
  if (has("exit")) {
    process.stderr.write("CUDA error: device-side assert triggered\n");
    process.exit(7);
  }
  if (has("silent")) return process.stderr.write("asked, and silent\n");
  if (has("hang")) for (;;);
  if (has("garbage")) return write("Loading checkpoint shards: 100%\n");
  if (has("other")) return say({ type: "reply", id: id + 40, result: {} });
  if (has("fails")) return say({ type: "failure", id, kind: "failed", message: "no memory" });
  if (has("grow")) return setInterval(() => hoard.push(Buffer.alloc(32 * 2 ** 20, 1)), 10);
  const scores = texts.map(scoreOf);
  const result = has("short") ? { scores: [...scores, { reward: 1 }] } : { scores };
  if (has("endless")) result.more = "x".repeat(5 * 2 ** 20);
  say({ type: "reply", id, result });
  if (has("twice")) say({ type: "reply", id, result });
}

hear({
  hello() {
    const tensors = [{ name: "one", dtype: "f32", shape: [4], offsetBytes: 0 }];
    const model = { modelId: "odd", vocab: 43, maxContext: 36, tensors };
    const self = mode === "trainer" ? { roles: ["policy"], ...model } : { roles: ["reward"] };
    if (mode === "refuses") return say({ type: "refusal", message: "no model of mine is here" });
    const hello = { type: "hello", protocol: 1, ...self, build: "odd-1", deterministic: true };
    if (isNext) setTimeout(say, 1_200, hello);
    else say(hello);
  },
  message({ type, id, method, params }) {
    if (type === "ping") say({ type: "pong", id });
    else if (type === "cancel") say({ type: "failure", id, kind: "cancelled", message: "" });
    else if (method === "attach") {
      fd = openSync(params.regions[0].path, "r");
      say({ type: "reply", id, result: {} });
    } else if (method === "score") score(id, params);
  },
});

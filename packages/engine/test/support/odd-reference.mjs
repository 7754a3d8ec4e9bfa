// A reference worker from the pages of the protocol alone: every token is as likely as every other, but for what its argument names.
import { existsSync, openSync, readSync, writeFileSync, writeSync } from "node:fs";
import { hear, say } from "./frames.mjs";

const [mode = "good", mark = ""] = process.argv.slice(2);
const isNext = mode === "slow-next" && existsSync(mark);
if (mode === "slow-next") writeFileSync(mark, "");
let vocab = 1;
let fd = 0;
let asked = 0;

function logprobs({ sequences, arrays }) {
  if (mode === "ends" || (mode === "slow-next" && !isNext) || (mode === "mates-end" && sequences > 1)) process.exit(9);
  const { length } = arrays.tokens;
  asked += 1;
  const value =
    { positive: 0.5, nan: Number.NaN, unnormal: -1, drifts: -asked, large: -Math.log(64) }[mode] ?? -Math.log(vocab);
  writeSync(fd, new Uint8Array(Float32Array.from({ length }, () => value).buffer), 0, 4 * length, 0);
  const wanted = length - promptTokens(arrays);
  return { arrays: { logprobs: { dtype: "f32", offsetBytes: 0, length: mode === "short" ? wanted - 1 : wanted } } };
}

let inputs = 0;
function promptTokens({ promptLengths }) {
  const bytes = Buffer.alloc(4 * promptLengths.length);
  readSync(inputs, bytes, 0, bytes.length, promptLengths.offsetBytes);
  return Array.from({ length: promptLengths.length }, (_, i) => bytes.readInt32LE(4 * i)).reduce((a, b) => a + b, 0);
}

hear({
  hello(message) {
    vocab = message.vocab;
    const hello = { type: "hello", protocol: 1, roles: ["reference"], build: "odd-1", deterministic: mode !== "loose" };
    if (isNext) setTimeout(say, 1_200, hello);
    else say(hello);
  },
  message({ type, id, method, params }) {
    if (type === "ping") say({ type: "pong", id });
    else if (type === "cancel") say({ type: "failure", id, kind: "cancelled", message: "" });
    else if (method === "attach") {
      const pathOf = (name) => params.regions.find((region) => region.name === name).path;
      [inputs, fd] = [openSync(pathOf("inputs"), "r"), openSync(pathOf("outputs"), "r+")];
      say({ type: "reply", id, result: {} });
    } else if (method === "logprobs") say({ type: "reply", id, result: logprobs(params) });
  },
});

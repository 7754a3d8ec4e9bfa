/** A server of OpenAI's interface as a program: `started-server.mjs PORT TAG [fault]`. */
import { createServer } from "node:http";

const [, , port, tag, fault] = process.argv;
if (fault === "exits") {
  process.stderr.write("no such device\n");
  process.exit(3);
}
if (fault === "environment") {
  const name = "SGLANG_BATCH_INVARIANT_OPS_ENABLE_MM_FALLBACK_VARIANT";
  process.stderr.write(`${name}=${process.env[name]}\n`);
  process.exit(3);
}
createServer((request, response) => {
  const answer = (table) => response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(table));
  if (request.url === "/v1/models") return answer({ data: [{ id: tag }] });
  const content = [1, 2, 0].map((id) => ({ id, logprob: -1 }));
  answer({ model: tag, pid: process.pid, choices: [{ finish_reason: "stop", logprobs: { content } }] });
}).listen(Number(port), "127.0.0.1");

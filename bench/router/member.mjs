/** An engine that answers at once, or clients that ask. */
import { Agent, createServer, request } from "node:http";
import { medianOf } from "@muster/base";
import { serveCalls } from "../lib/member.mjs";

const answer = JSON.stringify({
  text: "an answer ".repeat(32),
  output_ids: Array.from({ length: 128 }, (_, i) => i),
  meta_info: { id: "x", finish_reason: { type: "length", length: 128 }, weight_version: "1" },
});
const question = JSON.stringify({
  input_ids: Array.from({ length: 256 }, (_, i) => i),
  sampling_params: { max_new_tokens: 128 },
});

serveCalls({ serve, load });

/** @returns {Promise<number>} The port. */
function serve() {
  const server = createServer((asked, response) => {
    asked.resume();
    asked.on("end", () => {
      const isInfo = asked.url === "/model_info";
      response.writeHead(200, { "content-type": "application/json" });
      response.end(isInfo ? '{"weight_version":"1"}' : asked.method === "GET" ? "{}" : answer);
    });
  });
  server.keepAliveTimeout = 60_000;
  return new Promise((resolve) => {
    server.listen(0, "127.0.0.1", () => resolve(/** @type {import("node:net").AddressInfo} */ (server.address()).port));
  });
}

/** @param {{ port: number, count: number, width: number }} options `width` clients ask `count` times together. */
async function load({ port, count, width }) {
  const agent = new Agent({ keepAlive: true, maxSockets: width });
  /** @type {number[]} */
  const times = [];
  const one = () =>
    new Promise((resolve, reject) => {
      const startedMs = performance.now();
      const headers = { "content-type": "application/json", "content-length": question.length };
      const asked = request(
        { agent, port, host: "127.0.0.1", method: "POST", path: "/generate", headers },
        (response) => {
          if (response.statusCode !== 200) reject(new Error(`status ${response.statusCode}`));
          response.resume();
          response.on("end", () => {
            times.push(performance.now() - startedMs);
            resolve(null);
          });
        },
      );
      asked.on("error", reject);
      asked.end(question);
    });
  const startedMs = performance.now();
  const client = async () => {
    for (let i = 0; i < count / width; i++) await one();
  };
  await Promise.all(Array.from({ length: width }, client));
  const msPerRequest = (performance.now() - startedMs) / times.length;
  agent.destroy();
  return { p50Ms: medianOf(times), msPerRequest };
}

/** The agent of `examples/agent` in front of a router whose answers break off: it asks again, as clients of the OpenAI API do. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { fileURLToPath } from "node:url";
import { expect, onTestFinished, test } from "vitest";

const agentFile = fileURLToPath(new URL("../../../examples/agent/agent.py", import.meta.url));

test("an answer that breaks off in the middle is asked for again", async () => {
  const asked: string[] = [];
  const server = createServer((request, response) => {
    const { url = "" } = request;
    const isFirst = !asked.includes(url);
    asked.push(url);
    const { port } = server.address() as AddressInfo;
    const body = JSON.stringify({
      ...{ session_id: "a", base_url: `http://127.0.0.1:${port}/sessions/a/v1` },
      choices: [{ message: { role: "assistant", content: "1980-01-04" } }],
    });
    response.writeHead(200, { "content-length": body.length });
    if (isFirst) response.write(body.slice(0, 9), () => response.destroy());
    else response.end(body);
  }).listen(0, "127.0.0.1");
  onTestFinished(() => void server.close());
  await once(server, "listening");
  const agent = spawn("python3", [agentFile, `http://127.0.0.1:${(server.address() as AddressInfo).port}`]);
  const [told, faults, [code]] = await Promise.all([text(agent.stdout), text(agent.stderr), once(agent, "exit")]);
  expect([code, faults]).toEqual([0, ""]);
  expect(told.trim().split("\n")).toHaveLength(11);
  expect(asked.filter((url) => url === "/sessions")).toHaveLength(2);
});

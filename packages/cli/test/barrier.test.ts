/** Arrivals at barriers: with which credentials, and refused with the option, the value and the way out where they can not be told. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { decodeMessage, subjectsOf } from "@muster/protocol";
import { makeTempDirectory, startTestServer } from "@muster/testkit";
import { credentialsOfReplica } from "@muster/transport";
import { beforeAll, expect, test } from "vitest";
import { connectionText } from "../src/composition/connection.ts";
import { buildOnce, muster, startMuster } from "./support/muster.ts";

beforeAll(buildOnce, 120_000);

const arrival = ["barrier", "3", "--iteration", "7", "--ranks", "2", "--rank", "0"];

test("the credentials of a script are enough", async () => {
  const [server, folder] = await Promise.all([startTestServer(), makeTempDirectory()]);
  const credentials = { script: credentialsOfReplica(server.server.credentials.script, "host-0") };
  const file = join(folder.path, "host-0.json");
  writeFileSync(file, connectionText({ job: "test", url: server.url, credentials }), { mode: 0o600 });
  const controller = await server.connect("controller.c0.a1");
  const arrived = new Promise((resolve) => {
    const consumer = { stream: "reports", consumer: "controller", deliver: "all", maxPending: 8 } as const;
    const handle = ({ data, ack }: { readonly data: Uint8Array; ack(): void }): void => {
      ack();
      resolve(decodeMessage(data));
    };
    void controller.consume({ ...consumer, filter: subjectsOf("test").all.reports, handle });
  });
  const waiting = startMuster([...arrival, "--job", "test", "--connection", file]);
  const ended = waiting.ended.then(({ stderr }) => stderr);
  expect(await Promise.race([arrived, ended])).toMatchObject({ kind: "barrier.arrived", from: "host-0" });
  waiting.kill("SIGKILL");
  await waiting.ended;
  await server.close();
  await folder.remove();
});

test("a deadline of less than a second is refused, since each would raise an alarm", () => {
  const { code, stderr } = muster([...arrival, "--timeout", "500ms"]);
  expect([code, stderr]).toEqual([2, expect.stringContaining("--timeout: 500ms is not from 1s to 24h")]);
});

test("a decision that is too long for the others is refused, and not cut", () => {
  const { code, stderr } = muster([...arrival, "--decision", "x".repeat(2_001)]);
  expect([code, stderr]).toEqual([
    2,
    expect.stringMatching(/--decision: x{40}….*has 2001 characters, at most 2000 reach the other ranks/),
  ]);
});

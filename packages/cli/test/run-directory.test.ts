import { chmodSync, mkdirSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { makeTempDirectory, type TempDirectory } from "@muster/testkit";
import type { ServerCredentials } from "@muster/transport";
import { afterEach, beforeEach, expect, it } from "vitest";
import { findConnection, writeConnection } from "../src/composition/connection.ts";
import { plainTextWarning } from "../src/composition/plain-text.ts";
import { openRunDirectory, socketDirectoryOf } from "../src/run/run-directory.ts";

let temp: TempDirectory;
beforeEach(async () => {
  temp = await makeTempDirectory();
});
afterEach(() => temp.remove());

it("jobs of one name in two folders of runs have sockets of their own, wherever they are started from", () => {
  expect(socketDirectoryOf("/data/one/runs", "dates")).not.toBe(socketDirectoryOf("/data/two/runs", "dates"));
  expect(socketDirectoryOf("runs", "dates")).toBe(socketDirectoryOf(`${process.cwd()}/runs`, "dates"));
});

it("a run's folder that somebody else could have prepared is not taken over", () => {
  mkdirSync(join(temp.path, "mine"));
  chmodSync(join(temp.path, "mine"), 0o777);
  expect(() => openRunDirectory(temp.path, "mine")).toThrow(/mine can be written by others/);
  mkdirSync(join(temp.path, "elsewhere"));
  symlinkSync("elsewhere", join(temp.path, "linked"));
  expect(() => openRunDirectory(temp.path, "linked")).toThrow(/linked is a link/);
});

it("latest stands for the newest job in every command, and no run can have it as its name", () => {
  const connection = { job: "dates-1", url: "nats://127.0.0.1:4222", credentials: {} as ServerCredentials };
  writeConnection(join(temp.path, "dates-1"), connection);
  expect(findConnection({ runs: temp.path, job: "latest" }, []).directory).toBe(join(temp.path, "dates-1"));
  expect(() => openRunDirectory(temp.path, "latest")).toThrow("--job: latest stands for the newest run");
});

it.each([
  ["nats://127.0.0.1:4222", null],
  ["nats://localhost", null],
  ["127.9.9.9:4222,nats://[::1]:4222", null],
  ["tls://broker.example:4222", null],
  ["nats://10.0.0.7:4222,tls://10.0.0.8", "the broker at nats://10.0.0.7:4222 is reached without TLS"],
  ["127.0.0.1.broker.example:4222", "127.0.0.1.broker.example:4222 is reached without TLS"],
  ["nats://user@127.0.0.1@broker.example", "is reached without TLS"],
])("the address %s of a broker is warned of: %s", (url, warning) => {
  if (warning === null) expect(plainTextWarning(url)).toBeNull();
  else expect(plainTextWarning(url)).toContain(warning);
});

import { chmodSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { makeTempDirectory, type TempDirectory } from "@muster/testkit";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { checksText } from "../src/commands/doctor.ts";
import { checkBroker } from "../src/doctor/broker.ts";
import { isAtLeast, missing, ok, warn } from "../src/doctor/check.ts";
import { checkFolders } from "../src/doctor/folders.ts";
import { checkMachine, checkNode } from "../src/doctor/machine.ts";
import { glooCheck } from "../src/doctor/tools.ts";
import { buildOnce, muster } from "./support/muster.ts";

let directory: TempDirectory;

beforeAll(async () => {
  directory = await makeTempDirectory();
});
afterAll(() => directory.remove());

describe("versions", () => {
  it.each([
    ["20.19.0", "20.19.0", true],
    ["v20.20", "20.19.0", true],
    ["21.0.0", "20.19.0", true],
    ["20.9.5", "20.19.0", false],
    ["19.99.99", "20.19.0", false],
    ["none", "20.19.0", false],
    ["2.11.0-rc.1", "2.11.0", true],
  ])("%s against %s: %s", (version, minimum, expected) => {
    expect(isAtLeast(version, minimum)).toBe(expected);
  });
});

describe("the doctor", () => {
  it("refuses an old Node and says which one to get", () => {
    expect(checkNode("18.20.0")).toMatchObject({ state: "missing", fix: expect.stringContaining("20.19.0") });
  });

  it("finds that this machine, which runs this test, can run the engine", () => {
    const states = Object.fromEntries(checkMachine().map(({ name, state }) => [name, state]));
    expect(states).toMatchObject({ node: "ok", "wasm simd": "ok" });
    expect(Object.keys(states)).toEqual(["node", "wasm simd", "cpu", "memory", "open files"]);
  });

  it("names Gloo where it was built, and where it was not says why and how to get it, as no fault", () => {
    expect(glooCheck({ path: "/p.so", version: "0.5.0" })).toEqual(ok("gloo", "0.5.0 at /p.so"));
    const none = glooCheck({ path: "/p.so", reason: "there is no /p.so" });
    expect(none).toMatchObject({ state: "ok", detail: expect.stringMatching(/there is no \/p\.so.*libgloo-dev/) });
  });

  it.each([
    ["is not there", null, /does not run/],
    ["is too old", "echo nats-server: v2.10.9", /version 2\.10\.9, older than 2\.11\.0/],
    ["says no version", "echo hello", /does not run/],
  ])("refuses a nats-server that %s", async (_, script, detail) => {
    const program = join(directory.path, `nats-${_.replaceAll(" ", "-")}`);
    if (script !== null) {
      writeFileSync(program, `#!/bin/sh\n${script}\n`);
      chmodSync(program, 0o755);
    }
    const check = await checkBroker({ MUSTER_NATS_SERVER: program });
    expect(check).toMatchObject({ state: "missing", detail: expect.stringMatching(detail) });
    expect(check.fix).toContain("npm run setup");
  });

  it("refuses the address of a server without credentials, or with a file that has none", async () => {
    const url = "nats://127.0.0.1:1";
    expect(await checkBroker({ MUSTER_NATS_URL: url })).toMatchObject({
      state: "missing",
      detail: expect.stringContaining("MUSTER_NATS_CREDENTIALS is not"),
    });
    const file = join(directory.path, "credentials.json");
    writeFileSync(file, "{}", { mode: 0o600 });
    expect(await checkBroker({ MUSTER_NATS_URL: url, MUSTER_NATS_CREDENTIALS: file })).toMatchObject({
      state: "missing",
      detail: expect.stringContaining("operator"),
    });
  });

  it("takes a folder of runs that is not made yet, and refuses a file in its place", async () => {
    const [fresh, sockets] = await checkFolders(join(directory.path, "a/b/runs"));
    expect(fresh?.state).not.toBe("missing");
    expect(sockets).toMatchObject({ name: "sockets", state: "ok" });
    const file = join(directory.path, "file");
    writeFileSync(file, "");
    expect((await checkFolders(file))[0]).toMatchObject({ state: "missing", detail: `${file} is no folder` });
  });

  it("writes each fix below its fault, and a sentence at the end", () => {
    expect(checksText([ok("a", "fine"), warn("long", "small", "grow"), missing("b", "gone", "get it")])).toBe(
      [
        "ok       a     fine",
        "warn     long  small",
        "               fix: grow",
        "missing  b     gone",
        "               fix: get it",
        "",
        "this machine can not run a job yet; missing: 1; warnings: 1",
      ].join("\n"),
    );
    expect(checksText([ok("a", "fine")])).toMatch(/this machine can run a job$/);
  });

  it("ends with code 1 when something is missing, for people and for programs", { timeout: 120_000 }, () => {
    buildOnce();
    const broken = { MUSTER_NATS_SERVER: join(directory.path, "no-such-program") };
    const text = muster(["doctor"], broken);
    expect(text.stdout).toMatch(/^missing {2}nats-server/m);
    expect(text.code).toBe(1);
    const json = muster(["doctor", "--json", "--runs", directory.path], broken);
    const { ok: isReady, checks } = JSON.parse(json.stdout) as {
      ok: boolean;
      checks: { name: string; state: string }[];
    };
    expect(isReady).toBe(false);
    expect(json.code).toBe(1);
    expect(checks.find(({ name }) => name === "gpu")?.state).toBe("ok");
  });
});

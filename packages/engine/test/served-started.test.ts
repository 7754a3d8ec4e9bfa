/** Servers that the engine starts by itself: each is started again when it dies or freezes, ends with its engine, and is given up when nothing helps. */
import { readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { needsOfTask, taskOf } from "@muster/data";
import type { JobConfig } from "@muster/protocol";
import { makeTempDirectory, type TempDirectory } from "@muster/testkit";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { embeddedAdapter } from "../src/embedded/index.ts";
import type { RolloutEngine } from "../src/index.ts";
import { inlineWeights } from "../src/internal.ts";
import { servedAdapterOf } from "../src/served/index.ts";
import { ContractServer } from "./support/contract-server.ts";

vi.setConfig({ testTimeout: 20_000 });

const never = new AbortController().signal;
const needs = needsOfTask(taskOf("dates"));
const trainer = embeddedAdapter.describe({}, needs);
const weights = new Uint8Array((trainer.tensors.at(-1)?.offsetBytes ?? 0) + (trainer.tensors.at(-1)?.sizeBytes ?? 0));
const program = fileURLToPath(new URL("support/started-server.mjs", import.meta.url));
const config = { task: { name: "dates", reward: "exact-match" } } as unknown as JobConfig;
const request = {
  requestId: "r",
  promptIds: Int32Array.of(1, 2),
  n: 4,
  sampling: { temperature: 1, maxNewTokens: 8, stopTokenIds: [0] },
  seed: 1,
};

let folder: TempDirectory;
let engine: RolloutEngine;
beforeEach(async () => {
  folder = await makeTempDirectory();
});
afterEach(async () => {
  await engine.close();
  expect(started()).toEqual([]);
  await folder.remove();
});

/** Processes whose arguments name the folder of this test. */
function started(): number[] {
  return readdirSync("/proc")
    .filter((pid) => /^\d+$/.test(pid) && argumentsOf(pid).includes(folder.path))
    .map(Number);
}

function argumentsOf(pid: string): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, "utf8");
  } catch {
    return ""; // ended meanwhile
  }
}

async function open(fault: string, kind: "openai" | "sglang" = "openai", flags = ""): Promise<RolloutEngine> {
  const adapter = servedAdapterOf(kind, process.env);
  const command = `'${process.execPath}' '${program}' {port} {tag} '${fault}' {model} ${flags}`;
  const times = { health_seconds: 0.3, start_seconds: 10, call_seconds: 0.5 };
  const options = adapter.schema.parse({ command, folder: folder.path, ...times });
  engine = await adapter.openRollout!(options as Parameters<NonNullable<typeof adapter.openRollout>>[0], {
    ...{ needs, config, trainer },
  });
  return engine;
}

describe("a server that the engine starts", () => {
  it("is started with each version, and the one before has ended", async () => {
    const engine = await open("");
    for (const version of [1, 2]) {
      await engine.updateWeights(inlineWeights(version, weights));
      expect(started()).toHaveLength(1);
      const [row = []] = await engine.generate([request], never);
      expect(row.map(({ versionAtStart }) => versionAtStart)).toEqual([version, version, version, version]);
    }
  });

  it.each(["SIGKILL", "SIGSTOP"] as const)(
    "is replaced after %s, and the responses come from the next one",
    async (signal) => {
      const engine = await open("");
      await engine.updateWeights(inlineWeights(1, weights));
      const [before = 0] = started();
      process.kill(before, signal);
      expect((await engine.generate([request], never))[0]).toHaveLength(4);
      expect(started()).not.toContain(before);
      expect(await engine.health({ deep: true, signal: never })).toMatchObject({ ok: true });
    },
  );

  it("says what it said last when it does not start", async () => {
    const engine = await open("exits");
    await expect(engine.updateWeights(inlineWeights(1, weights))).rejects.toThrow(
      /started-server\.mjs .* ended: exit code 3; it said last: no such device/,
    );
    expect(engine.weightVersion()).toBeNull();
  });

  it("has the environment that its flags ask for", async () => {
    const engine = await open("environment", "sglang", "--enable-deterministic-inference");
    await expect(engine.updateWeights(inlineWeights(1, weights))).rejects.toThrow(
      /it said last: SGLANG_BATCH_INVARIANT_OPS_ENABLE_MM_FALLBACK_VARIANT=0/,
    );
  });
});

describe("muster doctor", () => {
  it("says what a server is, what it can, and which promises hold", async () => {
    engine = await open("");
    const server = await ContractServer.start("sglang");
    const findings = await servedAdapterOf("sglang", {}).doctor({ url: server.url });
    expect(findings.map(({ state, name }) => [state, name])).toEqual([
      ["ok", "sglang"],
      ["ok", "tokens"],
      ["ok", "weights"],
      ["ok", "checksums"],
      ["ok", "promises"],
    ]);
    expect(findings[0]?.detail).toMatch(/model served, weights default, version 0\.5\.21/);
    expect(findings[3]?.detail).toMatch(/^\/weights_checker gives those of its weights; all together [0-9a-f]{16}$/);
    expect(findings[4]?.detail).toMatch(/not the same responses twice: start it with --enable-deterministic-inference/);
    server.isHashing = false;
    const [, , , none] = await servedAdapterOf("sglang", {}).doctor({ url: server.url });
    expect(none).toMatchObject({
      state: "ok",
      detail: expect.stringMatching(/^none, .*\/weights_checker answers 404$/),
    });
    server.always = "no logprobs";
    const [, tokens] = await servedAdapterOf("sglang", {}).doctor({ url: server.url });
    expect(tokens).toMatchObject({ state: "missing", detail: expect.stringMatching(/no meta_info/) });
    await server.kill();
    const gone = await servedAdapterOf("sglang", {}).doctor({ url: "http://127.0.0.1:9" });
    expect(gone).toMatchObject([{ state: "missing", detail: expect.stringMatching(/can not be reached/) }]);
  });
});

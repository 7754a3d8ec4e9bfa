/** What of a job stands against a level of determinism before anything is computed. */

import type { JobConfig } from "@muster/protocol";
import { describe, expect, it } from "vitest";
import { configContradictions } from "../src/registry/contradictions.ts";
import { servedOptionsOf } from "../src/served/options.ts";
import { flagProblems } from "../src/served/repeats.ts";

const flags = "--enable-deterministic-inference --disable-radix-cache";
const of = (kind: "sglang" | "vllm", line: string, env: Record<string, string> = {}) =>
  flagProblems({ kind, command: { words: ["server", ...line.split(" ")], env } }).map(({ text }) => text);

describe("the flags of a server", () => {
  it.each([
    ["sglang", flags, {}],
    ["sglang", `${flags} --attention-backend=fa3`, { SGLANG_BATCH_INVARIANT_OPS_ENABLE_MM_FALLBACK_VARIANT: "0" }],
    ["vllm", "--no-enable-prefix-caching", { VLLM_BATCH_INVARIANT: "1" }],
  ] as const)("of %s promise equal responses: %s", (kind, line, env) => {
    expect(of(kind, line, env)).toEqual([]);
  });

  it.each([
    ["sglang", "--disable-radix-cache", {}, "no --enable-deterministic-inference"],
    ["sglang", "--enable-deterministic-inference", {}, "no --disable-radix-cache"],
    ["sglang", flags, { SGLANG_BATCH_INVARIANT_OPS_ENABLE_MM_FALLBACK_VARIANT: "true" }, "set it to 0"],
    ["sglang", flags, { SGLANG_BATCH_INVARIANT_OPS_ENABLE_MM_FALLBACK_VARIANT: "y" }, "set it to 0"],
    ["sglang", `${flags} --speculative-algorithm EAGLE`, {}, "--speculative"],
    ["sglang", `${flags} --quantization=fp8`, {}, "--quantization"],
    ["vllm", "--no-enable-prefix-caching", {}, "VLLM_BATCH_INVARIANT=1 is not"],
    ["vllm", "--port 1", { VLLM_BATCH_INVARIANT: "1" }, "no --no-enable-prefix-caching"],
  ] as const)("of %s with %s stand against it, and the sentence says which: %j", (kind, line, env, says) => {
    const found = of(kind, line, env);
    expect(found).toHaveLength(1);
    expect(found[0]).toContain(says);
    expect(found[0]).toMatch(new RegExp(`^engine\\.${kind}\\.command: `));
  });

  it("that nobody can see promise nothing, and servers of no known kind neither", () => {
    expect(flagProblems({ kind: "vllm", command: null })[0]?.text).toContain(
      "engine.vllm.url: the server runs already",
    );
    expect(flagProblems({ kind: "openai", command: { words: ["x"], env: {} } })).toHaveLength(1);
  });
});

describe("the environment of a server that Muster starts", () => {
  const fallback = "SGLANG_BATCH_INVARIANT_OPS_ENABLE_MM_FALLBACK_VARIANT";
  const started = (line: string, environment = "", parent = {}) =>
    servedOptionsOf("sglang", { command: `server --port {port} ${line}`, environment }, parent);

  it("has SGLang's batch-variant fallback off where its flags ask for determinism, and nothing set where they do not", () => {
    expect(started(flags).command?.env).toEqual({ [fallback]: "0" });
    expect(started("--rl-on-policy-target fsdp").command?.env).toEqual({ [fallback]: "0" });
    expect(started("").command?.env).toEqual({});
  });

  it("keeps what the job, or the shell, says of it, and certify refuses the fallback that is on", () => {
    for (const options of [started(flags, `${fallback}=true`), started(flags, "", { [fallback]: "true" })]) {
      expect(options.command?.env).toEqual({ [fallback]: "true" });
      expect(flagProblems(options).map(({ text }) => text)).toEqual([expect.stringContaining("set it to 0")]);
    }
    expect(flagProblems(started(flags, `${fallback}=0`, { [fallback]: "true" }))).toEqual([]);
  });
});

describe("a configuration", () => {
  const found = (config: Partial<JobConfig>) =>
    configContradictions({ mode: "sync", ...config } as JobConfig).map(({ level, keys }) => [level, ...keys]);

  it("stands against no level in sync with equal states, against responses in async, against weights with another agreement", () => {
    expect(found({})).toEqual([]);
    expect(found({ mode: "async" })).toEqual([["L2", "job.mode"]]);
    expect(found({ agreement: "leader" })).toEqual([["L3", "job.agreement"]]);
  });
});

/** Models that `transformers` computes, where it is installed. About 20 s: it takes seconds to import. */
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { pythonThatRuns } from "@muster/testkit";
import { expect, it, vi } from "vitest";
import { pathOf } from "./worker-fixture.ts";

vi.setConfig({ testTimeout: 180_000 });

it("a model of another type than the plain ones is opened by transformers: its sizes under any name, angles as precise as it wants them, experts refused by name", (context) => {
  const python = pythonThatRuns("import torch, transformers");
  context.skip(python === undefined, "no python3 here has torch and transformers");
  const scratch = mkdtempSync(join(tmpdir(), "muster-models-"));
  try {
    const script = fileURLToPath(new URL("transformers_models.py", import.meta.url));
    const env = { ...process.env, PYTHONPATH: pathOf("python"), PYTHONDONTWRITEBYTECODE: "1" };
    const done = spawnSync(String(python), [script, pathOf("jobs/warm-start/dates"), scratch], {
      env,
      encoding: "utf8",
    });
    expect(done.status, done.stderr).toBe(0);
    const found = JSON.parse(done.stdout);
    expect(found.plain).toBeLessThan(1e-5);
    expect(found.bfloat16).toBeLessThan(0.02);
    expect(found.dtypes).toEqual(["torch.bfloat16", "torch.float32"]);
    expect(found.gpt2.sizes).toEqual([43, 128, 2, 32]);
    expect(found.qwen3.sizes).toEqual([43, 128, 2, 32]);
    expect(found.gpt2.apart).toBeLessThan(1e-5);
    expect(found.qwen3.apart).toBeLessThan(1e-5);
    expect(found.experts).toMatch(/mixtral has no tensor \S+experts\S+, which transformers \S+ makes of others/);
  } finally {
    rmSync(scratch, { recursive: true });
  }
});

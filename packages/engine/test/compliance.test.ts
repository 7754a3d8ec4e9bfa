import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { needsOfTask, taskOf } from "@muster/data";
import { describe, expect, it } from "vitest";
import { type EngineSubject, engineChecks } from "../src/compliance/index.ts";
import { embeddedAdapter } from "../src/embedded/index.ts";
import { loadAdapter } from "../src/index.ts";

const echo = await loadAdapter(fileURLToPath(new URL("../../../examples/echo-engine/echo.mjs", import.meta.url)));
const needs = needsOfTask(taskOf("dates"));

describe.each([embeddedAdapter, echo])("the engine $kind", (adapter) => {
  it.each(engineChecks({ adapter, options: {}, needs }))("$says", ({ run }) => run());
});

describe("the checks see an engine that", () => {
  const failing = async (adapter: EngineSubject["adapter"]): Promise<string> => {
    const causes: string[] = [];
    for (const { run } of engineChecks({ adapter, options: {}, needs }))
      await run().catch((error: unknown) => causes.push(String(error)));
    return causes.join("\n");
  };

  it("promotes another state than its candidate", async () => {
    const openPolicy: typeof echo.openPolicy = async (options, opening) => {
      const engine = await echo.openPolicy!(options, opening);
      const promote = engine.promote.bind(engine);
      return Object.assign(engine, {
        promote: () => {
          promote();
          (engine.state().weights as Uint8Array)[0]! ^= 1;
        },
      });
    };
    expect(await failing({ ...echo, openPolicy })).toMatch(/the live state after promote/);
  });

  it("draws the same response for every number", async () => {
    const openRollout: typeof echo.openRollout = async (options, opening) => {
      const engine = await echo.openRollout!(options, opening);
      const generate = engine.generate.bind(engine);
      return Object.assign(engine, {
        generate: (requests: Parameters<typeof generate>[0], signal: AbortSignal) =>
          generate(
            requests.map((request) => ({ ...request, seed: request.seed + (request.from ?? 0) * 977 })),
            signal,
          ),
      });
    };
    expect(await failing({ ...echo, openRollout })).toMatch(/responses 1 to 15 drawn by themselves/);
  });

  it("leaves out a loss that it names", async () => {
    const describe: typeof echo.describe = (options, given) => ({
      ...echo.describe(options, given),
      losses: ["cispo"],
    });
    expect(await failing({ ...echo, describe })).toMatch(/the loss cispo has the gradient of the clipped surrogate/);
  });

  it("publishes another table than it said", async () => {
    const describe: typeof echo.describe = (options, given) => ({ ...echo.describe(options, given), tensors: [] });
    expect(await failing({ ...echo, describe })).toMatch(/row 1 of the tensor table/);
  });
});

it.each([
  ["export const other = 1;", /exports undefined where a function is wanted; export it as default or as engine/],
  ["export const engine = () => ({ kind: 'Mine' });", /is no engine: kind must be 1 to 32 of a-z/],
  ["export const engine = () => { throw new Error('no license'); };", /can not be loaded: no license/],
])("a module that makes no engine is refused by what it lacks: %s", async (text, expected) => {
  const folder = await mkdtemp(join(tmpdir(), "muster-engine-"));
  const path = join(folder, "mine.mjs");
  await writeFile(path, text);
  await expect(loadAdapter(path)).rejects.toThrow(expected);
  await rm(folder, { recursive: true });
});

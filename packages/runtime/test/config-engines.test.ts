import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { enginesNamedIn, explainConfig, type LoadJobOptions, loadJob } from "../src/config/index.ts";
import { engines, llama } from "./support/engines.ts";

const describeTask = () => ({ vocab: 43, maxContext: 36 });
const minimal = '[job]\nname = "dates"\n\n[task]\nname = "dates"\n';

describe("the engines of a job", () => {
  let folder: string;
  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), "muster-config-engines-"));
  });
  afterAll(() => rmSync(folder, { recursive: true }));

  const load = (text: string, options: Partial<LoadJobOptions> = {}) => {
    const file = join(folder, "job.toml");
    writeFileSync(file, text);
    return loadJob({ file, env: {}, folder: "/somewhere", describeTask, engines, ...options });
  };
  const faultsOf = (text: string, options: Partial<LoadJobOptions> = {}): string[] => {
    try {
      load(text, options);
    } catch (error) {
      return (error as Error).message.split("\n  - ").slice(1);
    }
    return [];
  };

  test("are embedded ones unless it says otherwise, and [model] is their table", () => {
    expect(load(`${minimal}[model]\nhidden = 32\n`).config.engine).toEqual({
      policy: { adapter: "embedded", options: { ...llama.options, hidden: 32 } },
      rollout: { adapter: "embedded", options: { ...llama.options, hidden: 32 } },
    });
  });

  test("may differ by role, each with a table of its own, from file, environment and flags", () => {
    const { config } = load(`${minimal}[engine]\nrollout = "other"\n[engine.other]\nurl = "http://here"\n`, {
      env: { MUSTER_MODEL_HIDDEN: "16" },
    });
    expect(config.engine.policy).toEqual({ adapter: "embedded", options: { hidden: 16, tied: true } });
    expect(config.engine.rollout).toEqual({ adapter: "other", options: { url: "http://here" } });
    const flagged = load(minimal, { set: ["engine.kind=other", "engine.other.url=http://there"] });
    expect(flagged.config.engine.rollout).toEqual({ adapter: "other", options: { url: "http://there" } });
  });

  test("are found before anything is loaded, modules by their absolute path", () => {
    const file = join(folder, "named.toml");
    writeFileSync(join(folder, "mine.mjs"), "");
    writeFileSync(file, `${minimal}[engine]\nrollout = "./mine.mjs"\n`);
    expect(enginesNamedIn({ file, env: {} })).toEqual(["embedded", join(folder, "mine.mjs")]);
    expect(enginesNamedIn({ file, env: { MUSTER_ENGINE_KIND: "other" }, set: ["engine.rollout=other"] })).toEqual([
      "other",
    ]);
  });

  test("say with every other key where their values come from", () => {
    const rows = new Map(explainConfig(load(`${minimal}[model]\nhidden = 32\n`)).map((row) => [row.key, row]));
    expect(rows.get("model.hidden")).toEqual({
      key: "model.hidden",
      value: "32",
      source: "job.toml:7",
      kind: "integer",
    });
    expect(rows.get("model.tied")).toMatchObject({ value: "true", source: "default" });
  });

  test.each<[string, string, RegExp]>([
    [
      "an engine that nobody knows",
      '[engine]\nkind = "llam"',
      /engine\.kind = "llam": engine "llam" is not known; known engines/,
    ],
    [
      "a module that is not there",
      '[engine]\nkind = "./no.mjs"',
      /engine\.kind = "\.\/no\.mjs": .*no\.mjs does not exist/,
    ],
    [
      "an unknown key of a table",
      "[model]\nhiden = 3",
      /job\.toml:8: model\.hiden = 3 is not a known key; did you mean model\.hidden\?/,
    ],
    ["the table of an engine that is not used", "[engine.other]\nurl = 3", /engine\.other\.url = 3 is not a known key/],
    [
      "a value of the wrong kind",
      '[model]\nhidden = "wide"',
      /job\.toml:8: model\.hidden = "wide": must be a whole number/,
    ],
    ["what the schema refuses", "[model]\nhidden = 0", /job\.toml:8: model\.hidden = 0: expected number to be >=1/],
    ["options that make no model", "[model]\nhidden = 13", /engine\.kind = "embedded": 13 makes no model/],
    ["what the engine finds", "[model]\nhidden = 7", /model\.hidden = 7 is odd; make it even/],
  ])("refuse %s with one fault", (_, text, expected) => {
    expect(faultsOf(`${minimal}\n${text}\n`)).toEqual([expect.stringMatching(expected)]);
  });
});

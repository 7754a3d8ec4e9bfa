import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promptsTask } from "@muster/protocol";
import { describe, expect, test } from "vitest";
import { type LoadJobOptions, loadJob, promptsNamedIn } from "../src/config/index.ts";
import { engines } from "./support/engines.ts";

const folder = mkdtempSync(join(tmpdir(), "muster-config-prompts-"));
writeFileSync(join(folder, "rows.jsonl"), "");
const file = join(folder, "job.toml");
const found = { digest: "d".repeat(64), vocab: 19, tokenizerDigest: "t".repeat(64), heldOutRows: 40 };
const options = (text: string): LoadJobOptions => {
  writeFileSync(file, `[job]\nname = "own"\n\n[task]\n${text}`);
  const describeTask = (name: string) =>
    name === promptsTask ? { vocab: 19, maxContext: 36, prompts: found } : { vocab: 43, maxContext: 36 };
  return { file, env: {}, folder: "/somewhere", describeTask, engines };
};
const files = '[prompts]\ntrain = "rows.jsonl"\ntokenizer = "."\n';
const own = `name = "prompts"\n${files}`;

describe("a job with prompts of files", () => {
  test("names them before it is compiled, and has what was found in them afterwards", () => {
    const named = promptsNamedIn(options(own));
    expect(named).toMatchObject({
      files: {
        train: join(folder, "rows.jsonl"),
        heldOut: null,
        tokenizer: folder,
        promptColumn: "prompt",
        chat: true,
      },
      plan: { groupsPerStep: 128, maxNewTokens: 16 },
    });
    const { heldOutRows: _, ...findings } = found;
    expect(loadJob(options(own)).config.prompts).toEqual({
      ...(named && "files" in named ? named.files : {}),
      ...findings,
    });
  });

  test("evaluates only when something is held out", () => {
    expect(loadJob(options(own)).config.evaluation).toEqual({ everySteps: 0, prompts: 0, lossRows: 0 });
    const held = `${own}held_out = "rows.jsonl"\n[evaluation]\nprompts = 40\n`;
    expect(loadJob(options(held)).config.evaluation).toEqual({ everySteps: 50, prompts: 40, lossRows: 0 });
  });

  test("leaves a job of a built-in task as it was", () => {
    expect(promptsNamedIn(options('name = "dates"\n'))).toBeNull();
    expect("prompts" in loadJob(options('name = "dates"\n')).config).toBe(false);
  });

  test.each([
    [
      'name = "prompts"\n',
      'prompts.train is missing: task.name = "prompts" takes its prompts from files; set prompts.train',
    ],
    ['name = "prompts"\n', "prompts.tokenizer is missing"],
    [`name = "dates"\n${files}`, 'prompts.train is set, and only task.name = "prompts" reads it'],
    [own.replace("rows", "nothing"), "nothing.jsonl does not exist; paths in a job file start at the file"],
    [`${own}overlong = "cut"\n`, 'prompts.overlong = "cut"'],
    [`${own}max_tokens = 0\n`, "prompts.max_tokens = 0"],
    [`${own}held_out = "rows.jsonl"\n`, "prompts.held_out has 40 rows; set evaluation.prompts to at most 40"],
  ])("says what is wrong: %#", (text, fault) => {
    expect(() => loadJob(options(text))).toThrow(fault);
  });
});

import { mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { openModuleTask, openTask } from "../src/index.ts";

const example = fileURLToPath(new URL("../../../examples/own-task/task.mjs", import.meta.url));
const tokenizer = fileURLToPath(new URL("../../../examples/own-prompts/tokenizer", import.meta.url));
const plan = { seed: 1, groupsPerStep: 8, maxNewTokens: 3 };
const folder = mkdtempSync(join(tmpdir(), "muster-task-"));

let modules = 0;
/** A module of a task: the given fields over those of a sound one. */
function moduleWith(fields: string, before = ""): string {
  const path = join(folder, `task-${modules++}.mjs`);
  writeFileSync(
    path,
    `${before}\nexport const task = {\n  vocabulary: "$ab=",\n  maxPromptTokens: 4,\n  trainPrompt: ({ random }) => ({ prompt: random.below(2) ? "a=" : "b=" }),\n${fields}\n};\n`,
  );
  return path;
}

const keyOf = (step: number, index: number) => ({ seed: 1, step, index });

describe("a task of a module", () => {
  it("makes prompts that follow from seed, step and index alone, whoever asks and in whatever order", async () => {
    const [one, other] = [await openModuleTask(example, plan), await openModuleTask(example, plan)];
    const keys = Array.from({ length: 40 }, (_, i) => keyOf(1 + Math.floor(i / 8), i % 8));
    const asked = await Promise.all(keys.map(async (key) => await one.trainPrompt(key)));
    const again = await Promise.all(keys.toReversed().map(async (key) => await other.trainPrompt(key)));
    expect(again.toReversed()).toEqual(asked);
    expect(new Set(asked.map(({ text }) => text)).size).toBeGreaterThan(20);
    expect(asked[0]?.text).toMatch(/^\d,\d=$/);
    expect(one.digest).toBe(other.digest);
    await one.check(16);
  });

  it("gives numbers as answers and further columns to the reward, as copies", async () => {
    const path = join(folder, "kept.mjs");
    writeFileSync(
      path,
      'const kept = { prompt: "a=", answer: 7, list: [1] };\nexport const task = { vocabulary: "$ab=", maxPromptTokens: 4, trainPrompt: () => kept };\n',
    );
    const task = await openModuleTask(path, plan);
    const { answer, row, ids } = await task.trainPrompt(keyOf(1, 0));
    expect([answer, row, Array.from(ids)]).toEqual(["7", { prompt: "a=", answer: 7, list: [1] }, [1, 3]]);
    (row as { readonly list: number[] }).list.push(2);
    expect((await task.trainPrompt(keyOf(1, 0))).row?.list).toEqual([1]);
  });

  it("is told the place of a prompt in the job, so that a list can be gone through", async () => {
    const path = moduleWith('trainPrompt: ({ position }) => ({ prompt: "ab"[position % 2] + "=" }),');
    const task = await openModuleTask(path, plan);
    const texts = [keyOf(1, 0), keyOf(1, 1), keyOf(2, 0), keyOf(2, 3)].map(
      async (key) => (await task.trainPrompt(key)).text,
    );
    expect(await Promise.all(texts)).toEqual(["a=", "b=", "a=", "b="]);
  });

  it("leaves the end of a response out of its text", async () => {
    const task = await openModuleTask(moduleWith(""), plan);
    expect([task.vocab, task.stopTokenIds, task.decode(Int32Array.of(1, 2, 0))]).toEqual([4, [0], "ab"]);
  });

  it("may have a tokenizer of files and its chat template, and encode by itself", async () => {
    const named = `vocabulary: undefined, tokenizer: ${JSON.stringify(tokenizer)}, maxPromptTokens: 16,`;
    const chat = moduleWith(`${named} trainPrompt: () => ({ prompt: "is 4 even ?" }),`);
    const task = await openModuleTask(chat, plan);
    expect((await task.trainPrompt(keyOf(1, 0))).text).toBe("<|user|>is 4 even ?<|assistant|>");
    const own = moduleWith(
      `${named} trainPrompt: () => ({ prompt: "is 4" }), encode: ({ prompt }, { encode }) => encode(prompt),`,
    );
    const { text } = await (await openModuleTask(own, plan)).trainPrompt(keyOf(1, 0));
    expect(text).toBe("is 4");
  });

  it("that is another one than when the job was made is refused by both digests", async () => {
    const path = moduleWith("");
    const { digest, vocab, tokenizerDigest } = await openModuleTask(path, plan);
    const config = {
      seed: 1,
      task: { name: path, reward: path },
      taskModule: { digest, vocab, tokenizerDigest, maxTokens: 4 },
      batch: { groupsPerStep: 8 },
      ...{ sampling: { maxNewTokens: 3 }, rollout: {} },
    } as unknown as Parameters<typeof openTask>[0];
    expect(await openTask(config)).toMatchObject({ digest });
    const other = { ...config, taskModule: { digest: "other", vocab, tokenizerDigest, maxTokens: 4 } };
    await expect(openTask(other)).rejects.toThrow(
      `${path} is not what it was when the job was made: its digest is ${digest}, and the job has other`,
    );
  });
});

describe("a module that is no task is refused by its line, field, type and value:", () => {
  it.each([
    ["maxPromptTokens: '4',", ':6: maxPromptTokens is the text "4"; it must be a whole number from 1 to 1048576'],
    ["maxPromptTokens: 0,", ":6: maxPromptTokens is 0; it must be a whole number"],
    ["vocabulary: 'aa',", ':6: vocabulary is the text "aa"; it must be text of 2 to 4096 different characters'],
    ["vocabulary: undefined,", "vocabulary is left out, as tokenizer is; it must be the only one of the two"],
    ["tokenizer: 'x',", "vocabulary is there beside tokenizer; it must be the only one"],
    ["trainPrompt: 7,", ":6: trainPrompt is 7; it must be a function"],
    ["evalPrompt: [],", ":6: evalPrompt is a list of 0; it must be a function, or left out"],
    ["trainPromt: 1,", ":6: trainPromt is 1; it must be left out: a task has vocabulary, tokenizer, maxPromptTokens"],
  ])("%s", async (field, says) => {
    const lines = field.replace(/:.*/, "");
    // The last of two fields of one name counts, so the sound one goes.
    const path = moduleWith("");
    const sound = ["vocabulary", "maxPromptTokens", "trainPrompt"].includes(lines);
    const text = readFileSync(path, "utf8").replace(/\n\n};/, `\n${field}\n};`);
    writeFileSync(path, sound ? text.replace(new RegExp(`\n  ${lines}:.*`), "\n") : text);
    await expect(openModuleTask(path, plan)).rejects.toThrow(says);
  });

  it("there is none", async () => {
    const path = join(folder, "none.mjs");
    writeFileSync(path, "export const tasks = {};\n");
    await expect(openModuleTask(path, plan)).rejects.toThrow(
      `${path}: its export task is nothing (undefined); it must be an object with maxPromptTokens, trainPrompt`,
    );
  });
});

describe("a prompt that a module can not make is refused by its line, call, type and value:", () => {
  it.each([
    ['() => { throw new Error("no data"); }', ":6: trainPrompt of step 1, index 0 threw: no data"],
    ["() => 7", "trainPrompt of step 1, index 0 returned 7; it must return an object such as"],
    ["() => undefined", "returned nothing (undefined); it must return an object"],
    ["() => ({ prompt: 5 })", "returned prompt = 5; it must be text, or a list of messages"],
    ["() => ({ prompt: 'a', answer: {} })", "returned answer = a value of type object; it must be text, a number"],
    ["() => ({ prompt: 'a', big: 1n })", "returned what is no JSON: "],
    ["() => ({ prompt: '' })", "which makes no tokens: its prompt has no token"],
    ["() => ({ prompt: 'x' })", 'returned the text "x", which makes no tokens: character "x" is not in the vocabulary'],
    ["() => ({ prompt: 'ababa' })", "returned a prompt of 5 tokens, more than maxPromptTokens = 4"],
    ["() => ({ prompt: [{ role: 'user', content: 'a' }] })", "the tokenizer has no chat template"],
    [
      "() => ({ prompt: 'a' }), encode: () => [1.5]",
      "encode returned token id 1.5; it must be a whole number from 0 to 3",
    ],
    ["() => ({ prompt: 'a' }), encode: () => 'a'", 'encode returned the text "a"; it must be a list of token ids'],
  ])("%s", async (maker, says) => {
    await expect(openModuleTask(moduleWith(`trainPrompt: ${maker},`), plan)).rejects.toThrow(says);
  });

  it.each([
    ["() => ({ prompt: 'a' })", 'returned answer = the text "": its answer is empty'],
    [
      "() => ({ prompt: 'a', answer: 'abab' })",
      "its answer has 5 tokens with its end, more than sampling.max_new_tokens =",
    ],
    ["() => ({ prompt: 'a', answer: 'x' })", 'character "x" is not in the vocabulary'],
  ])("its answer is to be trained on, and can not be: %s", async (maker, says) => {
    const path = moduleWith(`trainPrompt: ${maker},`);
    await openModuleTask(path, plan);
    await expect(openModuleTask(path, { ...plan, isSupervised: true })).rejects.toThrow(says);
  });

  it("it is another one when it is asked again", async () => {
    const counting = moduleWith("trainPrompt: () => ({ prompt: 'ab'[n++ % 2] }),", "let n = 0;");
    const task = await openModuleTask(counting, { ...plan, groupsPerStep: 2 });
    await expect(task.check(0)).rejects.toThrow(
      /trainPrompt of step \d, index \d returned another prompt when it was asked again; it must depend on seed, step, index and position alone: draw from the key's random, not from Math\.random/,
    );
    const held = await openModuleTask(
      moduleWith("evalPrompt: () => ({ prompt: 'ab'[Math.floor(2 * Math.random())] }),"),
      plan,
    );
    await expect(held.check(64)).rejects.toThrow(/evalPrompt of index \d+ returned another prompt/);
  });

  it("a held-out one is missing", async () => {
    const task = await openModuleTask(
      moduleWith("evalPrompt: ({ index }) => (index < 3 ? { prompt: 'a' } : null),"),
      plan,
    );
    await task.check(3);
    await expect(task.check(4)).rejects.toThrow("evalPrompt of index 3 returned null");
  });
});

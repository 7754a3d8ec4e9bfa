import { cpSync, mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { errors } from "../src/errors.ts";
import type { ChatTokenizer } from "../src/hugging-face/tokenizer.ts";
import { answerIdsOf, openFileTask, type PromptFiles } from "../src/index.ts";
import { promptOfRow } from "../src/row-prompt.ts";

const example = fileURLToPath(new URL("../../../examples/own-prompts", import.meta.url));
const plan = { groupsPerStep: 32, maxNewTokens: 4 };

const files: PromptFiles = {
  train: join(example, "train.jsonl"),
  trainSplit: "train",
  heldOut: join(example, "test.jsonl"),
  heldOutSplit: "test",
  promptColumn: "prompt",
  answerColumn: "answer",
  tokenizer: join(example, "tokenizer"),
  chat: true,
  maxTokens: 16,
  overlong: "refuse",
  shuffle: true,
};

/** A copy of the example's tokenizer in which one file is another. */
function tokenizerWith(name: string, content: (own: Record<string, unknown>) => unknown): string {
  const folder = mkdtempSync(join(tmpdir(), "muster-tokenizer-"));
  cpSync(files.tokenizer, folder, { recursive: true });
  const own = JSON.parse(readFileSync(join(folder, name), "utf8")) as Record<string, unknown>;
  const changed = content(own);
  writeFileSync(join(folder, name), typeof changed === "string" ? changed : JSON.stringify(changed));
  return folder;
}

function rowsWith(...rows: readonly object[]): string {
  const path = join(mkdtempSync(join(tmpdir(), "muster-prompts-")), "rows.jsonl");
  writeFileSync(path, rows.map((row) => `${JSON.stringify(row)}\n`).join(""));
  return path;
}

const keyOf = (step: number, index: number) => ({ seed: 1, step, index });

describe("prompts of files", () => {
  it("are turns of a user in the chat template, with the answer and the whole row beside them", async () => {
    const task = await openFileTask({ ...files, shuffle: false }, plan);
    const prompt = await task.trainPrompt(keyOf(1, 0));
    const row = JSON.parse(readFileSync(files.train, "utf8").split("\n")[0] ?? "") as Record<string, unknown>;
    expect(prompt.text).toBe(`<|user|>${row.prompt}<|assistant|>`);
    expect(prompt.answer).toBe(row.answer);
    expect(prompt.row).toEqual(row);
    expect([prompt.ids[0], prompt.ids.at(-1)]).toEqual([2, 3]);
    expect(task.decode(prompt.ids)).toBe(String(row.prompt).replace(/(\d)(?=\d)/g, "$1 "));
    await task.close();
  });

  it("follow from seed, step and group alone: each row once in an epoch, whoever asks", async () => {
    const [one, other] = [await openFileTask(files, plan), await openFileTask(files, plan)];
    const epoch = Array.from({ length: 200 }, (_, i) => keyOf(1 + Math.floor(i / 32), i % 32));
    const texts = await Promise.all(epoch.map(async (key) => (await one.trainPrompt(key)).text));
    expect(new Set(texts).size).toBe(200);
    const again = await Promise.all(epoch.toReversed().map(async (key) => (await other.trainPrompt(key)).text));
    expect(again.toReversed()).toEqual(texts);
    await Promise.all([one.close(), other.close()]);
  });

  it("are never those held out", async () => {
    const task = await openFileTask(files, plan);
    const held = await Promise.all(
      Array.from({ length: task.heldOutRows }, async (_, i) => (await task.evalPrompt(i)).text),
    );
    const keys = Array.from({ length: 400 }, (_, i) => keyOf(1 + Math.floor(i / 32), i % 32));
    const trained = await Promise.all(keys.map(async (key) => (await task.trainPrompt(key)).text));
    expect(trained.filter((text) => held.includes(text))).toEqual([]);
    await task.close();
  });

  it("are checked with a word now and then, and other work goes on meanwhile", { timeout: 20_000 }, async () => {
    const train = rowsWith(...Array.from({ length: 2_001 }, () => ({ prompt: "1 ?", answer: "odd" })));
    const task = await openFileTask({ ...files, train, heldOut: null, shuffle: false, chat: false }, plan);
    const said: (readonly [number, number, boolean])[] = [];
    let isHeard = false;
    setImmediate(() => {
      isHeard = true;
    });
    await task.check((done, rows) => void said.push([done, rows, isHeard]));
    expect(said.map(([done, rows]) => [done, rows])).toEqual([
      [1_000, 2_001],
      [2_000, 2_001],
    ]);
    expect(said.at(-1)?.[2], "what was to be done meanwhile").toBe(true);
    await task.close();
  });

  it("are not refused for a host that has no thread to write them", () => {
    const renderChat = (): string => {
      throw errors.TemplateThread({ reason: "no answer within 10000 ms" });
    };
    const tokenizer = { renderChat } as unknown as ChatTokenizer;
    const make = () => promptOfRow({ prompt: "1?", answer: "1" }, tokenizer, { ...files, tokensMax: 16 });
    expect(make).toThrow(expect.objectContaining({ code: "MUSTER_ERR_TEMPLATE_THREAD" }));
  });

  it("may be conversations", async () => {
    const messages = [
      { role: "user", content: "is 1 odd ?" },
      { role: "assistant", content: "odd" },
      { role: "user", content: "is 2 even ?" },
    ];
    const task = await openFileTask({ ...files, train: rowsWith({ prompt: messages, answer: "even" }) }, plan);
    const { text } = await task.trainPrompt(keyOf(1, 0));
    expect(text).toBe("<|user|>is 1 odd ?<|assistant|>odd<|user|>is 2 even ?<|assistant|>");
    await task.close();
  });

  it("that are too long are refused by their row, or lose their beginning", async () => {
    const train = rowsWith({ prompt: `is ${"1 ".repeat(30)} odd ?`, answer: "odd" });
    const task = await openFileTask({ ...files, train }, plan);
    await expect(task.trainPrompt(keyOf(1, 0))).rejects.toThrow(
      /^row 1 of .*: its prompt has 35 tokens, more than prompts\.max_tokens = 16/,
    );
    await expect(task.check()).rejects.toThrow("more than prompts.max_tokens");
    await task.close();
    const short = await openFileTask({ ...files, train, overlong: "truncate" }, plan);
    const { ids } = await short.trainPrompt(keyOf(1, 0));
    expect([ids.length, ids.at(-1)]).toEqual([16, 3]);
    await short.close();
  });

  it.each([
    [{ question: "is 1 odd ?", answer: "odd" }, 'it has no column "prompt" (columns: question, answer)'],
    [{ prompt: "is 1 odd ?" }, 'it has no column "answer" (columns: prompt); prompts.answer_column'],
    [{ prompt: "is 1 odd ?", answer: ["odd"] }, 'its column "answer" is a list'],
    [{ prompt: [{ content: "is 1 odd ?" }], answer: "odd" }, "a list of messages with role and content"],
    [{ prompt: 7, answer: "odd" }, 'its column "prompt" must be text'],
  ])("of a row that makes none are refused by their row: %j", async (row, reason) => {
    const task = await openFileTask({ ...files, train: rowsWith(row) }, plan);
    await expect(task.trainPrompt(keyOf(1, 0))).rejects.toThrow(reason);
    await task.close();
  });

  describe("whose answers are trained on", () => {
    const supervised = { ...plan, isSupervised: true };

    it("have an answer that ends as a response does", async () => {
      const task = await openFileTask({ ...files, shuffle: false }, supervised);
      const ids = answerIdsOf(await task.trainPrompt(keyOf(1, 0)), task, 2);
      expect([ids.length, ids.at(-1), task.decode(ids)]).toEqual([2, task.stopTokenIds[0], "odd"]);
      await task.check();
      await task.close();
    });

    it.each([
      [{ prompt: "is 1 odd ?" }, 'it has no column "answer"'],
      [{ prompt: "is 1 odd ?", answer: null }, 'it has no column "answer"'],
      [{ prompt: "is 1 odd ?", answer: "" }, "its answer is empty"],
      [
        { prompt: "is 1 odd ?", answer: "yes no yes no" },
        "its answer has 5 tokens with its end, more than sampling.max_new_tokens = 4; raise that",
      ],
    ])("are refused by their row without one that fits: %j", async (row, reason) => {
      const task = await openFileTask(
        { ...files, train: rowsWith({ prompt: "is 2 odd ?", answer: "no" }, row) },
        supervised,
      );
      await expect(task.check()).rejects.toThrow(new RegExp(`^row 2 of .*: ${reason.replace(/[()]/g, "\\$&")}`));
      await task.close();
    });
  });

  it("have a digest of rows, tokenizer and rules, wherever the files lie", async () => {
    const digestOf = async (changed: Partial<PromptFiles>): Promise<string> => {
      const task = await openFileTask({ ...files, ...changed }, plan);
      await task.close();
      return task.digest;
    };
    const copy = join(mkdtempSync(join(tmpdir(), "muster-copy-")), "own-prompts");
    cpSync(example, copy, { recursive: true });
    const own = await digestOf({});
    expect(await digestOf({ train: join(copy, "train.jsonl"), tokenizer: join(copy, "tokenizer") })).toBe(own);
    const others = await Promise.all([
      digestOf({ train: files.heldOut as string }),
      digestOf({ chat: false }),
      digestOf({ tokenizer: tokenizerWith("tokenizer_config.json", (config) => ({ ...config, bos_token: "0" })) }),
    ]);
    expect(new Set([own, ...others]).size).toBe(4);
  });
});

describe("a tokenizer", () => {
  it.each([
    ["tokenizer.json", (): unknown => "{", /tokenizer\.json is no tokenizer that can be used: /],
    ["tokenizer.json", () => ({ model: 3 }), /tokenizer\.json is no tokenizer that can be used: model: /],
    ["tokenizer.json", () => ({ model: { type: "Nothing", vocab: {} } }), /is no tokenizer that can be used: /],
    ["tokenizer_config.json", () => ({}), /names no end of text: set eos_token/],
    ["tokenizer_config.json", () => ({ eos_token: "<|nothing|>" }), /names no end of text/],
    [
      "tokenizer_config.json",
      () => ({ eos_token: "<|end|>", chat_template: "{% for" }),
      /its chat template can not be read/,
    ],
  ] as const)("whose %s is wrong is refused: %#", async (name, content, message) => {
    await expect(openFileTask({ ...files, tokenizer: tokenizerWith(name, content) }, plan)).rejects.toThrow(message);
  });

  it("that is not there is refused by its path", async () => {
    const tokenizer = mkdtempSync(join(tmpdir(), "muster-none-"));
    await expect(openFileTask({ ...files, tokenizer }, plan)).rejects.toThrow(
      /tokenizer\.json .*there is no such file/,
    );
  });

  it("without a template takes prompts as they are written", async () => {
    const tokenizer = tokenizerWith("tokenizer_config.json", () => ({ eos_token: "<|end|>" }));
    const task = await openFileTask({ ...files, tokenizer, shuffle: false }, plan);
    expect((await task.trainPrompt(keyOf(1, 0))).text).toMatch(/^is \d+ even or odd \?$/);
    await task.close();
  });

  it("ends a response with the ids of generation_config.json where there are some", async () => {
    const tokenizer = tokenizerWith("tokenizer_config.json", (config) => config);
    writeFileSync(join(tokenizer, "generation_config.json"), JSON.stringify({ eos_token_id: [0, 1] }));
    const task = await openFileTask({ ...files, tokenizer }, plan);
    expect(task.stopTokenIds).toEqual([0, 1]);
    await task.close();
  });
});

import { type Prompt, randomOf } from "@muster/base";
import { describe, expect, it } from "vitest";
import { type BuiltInTask, taskOf } from "../src/index.ts";

const names = ["dates", "addition"];
const examples = 2000;

function trainPrompts(task: BuiltInTask): Prompt[] {
  return Array.from({ length: examples }, (_, index) => task.trainPrompt({ seed: 5, step: 1, index }));
}

const heldOut = (task: BuiltInTask): Prompt[] => Array.from({ length: examples }, (_, index) => task.evalPrompt(index));

describe.each(names)("task %s", (name) => {
  const task = taskOf(name);

  it("makes the same prompt for a key, and other prompts for other keys", () => {
    const key = { seed: 3, step: 7, index: 11 };
    expect(task.trainPrompt(key)).toEqual(task.trainPrompt(key));
    const texts = [key, { ...key, seed: 4 }, { ...key, step: 8 }, { ...key, index: 12 }].map(
      (k) => task.trainPrompt(k).text,
    );
    expect(new Set(texts).size).toBe(4);
  });

  it("encodes what it says, and fits prompt and answer in its context", () => {
    for (const prompt of [...trainPrompts(task), ...heldOut(task)]) {
      expect(task.decode(prompt.ids)).toBe(prompt.text);
      expect(prompt.ids.length + prompt.answer.length + 1).toBeLessThanOrEqual(task.maxTokens);
    }
  });

  it("never trains on a held-out case", () => {
    const random = randomOf(1);
    const held = new Set(heldOut(task).map((prompt) => prompt.text));
    expect(trainPrompts(task).filter((prompt) => held.has(prompt.text))).toEqual([]);
    const supervised = Array.from({ length: examples }, () => task.decode(task.supervised(random).promptIds));
    expect(supervised.filter((text) => held.has(text))).toEqual([]);
  });

  it("ends each supervised answer with the end token", () => {
    const { answerIds } = task.supervised(randomOf(2));
    expect(answerIds.at(-1)).toBe(task.stopTokenIds[0] as number);
    expect(answerIds.indexOf(task.stopTokenIds[0] as number)).toBe(answerIds.length - 1);
  });

  it("refuses text outside its vocabulary", () => {
    expect(() => task.encode("É")).toThrow(`character "É" is not in the vocabulary of task ${name}`);
  });
});

describe("the answers", () => {
  const monthNames = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];

  /** Reads a date back from any of the eight formats, with patterns of its own. */
  function isoOf(text: string): string {
    const body = text.replace(/=$/, "").replace(/^[a-z]{3}, /, "");
    const numeric = /^(\d+)(?:\. |\/)(\d+)(?:\. |\/)(\d{4})$/.exec(body);
    const year = Number(/\d{4}$/.exec(body)![0]);
    const rest = body.slice(0, -4);
    const month = numeric ? Number(numeric[2]) : monthNames.findIndex((name) => rest.includes(name)) + 1;
    const day = Number(/\d+/.exec(rest)![0]);
    return new Date(Date.UTC(year, month - 1, day)).toISOString().slice(0, 10);
  }

  it("of dates are what an independent reader of the prompt finds", () => {
    for (const prompt of trainPrompts(taskOf("dates"))) expect(isoOf(prompt.text)).toBe(prompt.answer);
  });

  it("of dates name the right weekday", () => {
    const named = trainPrompts(taskOf("dates")).filter((prompt) => /^[a-z]{3}, /.test(prompt.text));
    for (const { text, answer } of named) {
      const weekday = new Date(`${answer}T00:00:00Z`).toLocaleDateString("en-US", {
        weekday: "short",
        timeZone: "UTC",
      });
      expect(text.slice(0, 3)).toBe(weekday.toLowerCase());
    }
    expect(named.length).toBeGreaterThan(100);
  });

  it("of dates come in eight formats, of which the warm start sees four", () => {
    const formatOf = (text: string): string =>
      text
        .replace(/\d+/g, "9")
        .replace(/[a-z]{3,}(?! )/g, "m")
        .replace(/[a-z]{2,}/g, "m");
    const random = randomOf(3);
    const supervised = Array.from({ length: examples }, () =>
      taskOf("dates").decode(taskOf("dates").supervised(random).promptIds),
    );
    const seen = new Set(supervised.map(formatOf));
    const all = new Set(trainPrompts(taskOf("dates")).map((prompt) => formatOf(prompt.text)));
    expect([...seen].every((format) => all.has(format))).toBe(true);
    expect(all.size).toBeGreaterThan(seen.size + 3);
  });

  it("of addition are sums, least digit first", () => {
    for (const { text, answer } of trainPrompts(taskOf("addition"))) {
      const [a, b] = text.slice(0, -1).split("+").map(Number) as [number, number];
      expect(Number([...answer].reverse().join(""))).toBe(a + b);
      expect(answer.length).toBe(3);
    }
  });
});

describe("names", () => {
  it("that are unknown give an error with the known ones", () => {
    expect(() => taskOf("chess")).toThrow('task "chess" is not known; known tasks are dates, addition, prompts');
  });
});

/** What `muster worker check` lets a reward worker judge. */
import { readFileSync } from "node:fs";
import { messageOf } from "@muster/base";
import { taskOf } from "@muster/data";
import type { RewardInput } from "@muster/engine";
import { z } from "zod";
import { errors } from "../errors.ts";

const lineSchema = z.object({
  prompt: z.object({
    text: z.string(),
    answer: z.string().default(""),
    row: z.record(z.string(), z.unknown()).optional(),
  }),
  responseText: z.string(),
  finish: z.string().default("stop"),
});

/** Most lines of a file that are tried. */
const linesMax = 64;

/** Reads JSON lines, each what a reward is asked. Token ids are made of the characters. @throws MUSTER_ERR_OPTION_INVALID naming the line */
export function trajectoriesIn(path: string, vocab: number): readonly RewardInput[] {
  const invalid = (reason: string): Error => errors.OptionInvalid({ option: "trajectories", value: path, reason });
  let text: string;
  try {
    text = readFileSync(path, "utf8");
  } catch (error) {
    throw invalid(`can not be read: ${messageOf(error)}`);
  }
  const lines = text.split("\n").filter((line) => line.trim() !== "");
  if (lines.length === 0 || lines.length > linesMax)
    throw invalid(`has ${lines.length} lines, and 1 to ${linesMax} are tried`);
  return lines.map((line, i) => {
    const { data, error } = lineSchema.safeParse(jsonIn(line));
    if (data) return trajectoryOf(data, vocab);
    const [issue] = error.issues;
    throw invalid(`line ${i + 1} is no trajectory: ${issue?.path.join(".") || "it"}: ${issue?.message}`);
  });
}

function jsonIn(line: string): unknown {
  try {
    return JSON.parse(line);
  } catch {
    return null; // the schema says what it should be
  }
}

/** A right response to a prompt of the task `dates`, a wrong one, and one that was cut off. */
export function datesTrajectories(vocab: number): readonly RewardInput[] {
  const { text, answer } = taskOf("dates").evalPrompt(0);
  const said = [`${answer}$`, "1999-01-01$", answer.slice(0, 4)];
  return said.map((responseText) =>
    trajectoryOf(
      { prompt: { text, answer }, responseText, finish: responseText.endsWith("$") ? "stop" : "length" },
      vocab,
    ),
  );
}

function trajectoryOf({ prompt, responseText, finish }: z.infer<typeof lineSchema>, vocab: number): RewardInput {
  const { text, answer, row } = prompt;
  return {
    prompt: { ids: idsOf(text, vocab), text, answer, ...(row ? { row } : {}) },
    ...{ responseIds: idsOf(responseText, vocab), responseText, finish },
  };
}

/** Some token ids, which are those of no tokenizer. */
function idsOf(text: string, vocab: number): Int32Array {
  return Int32Array.from([...text], (character) => (character.codePointAt(0) ?? 0) % vocab);
}

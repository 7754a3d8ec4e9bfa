/** What a module must export to be a task; each fault names file, line, field and value. */
import { shownValue, type TaskModule } from "@muster/base";
import { errors } from "./errors.ts";

/** Where a module's text lies. */
export interface ModuleSource {
  readonly path: string;
  /** Its text, for lines in errors. */
  readonly source: string;
}

const vocabularyMax = 4096;
const promptTokensMax = 1_048_576;

interface Rule {
  readonly rule: string;
  readonly holds: (value: unknown) => boolean;
}

const isFunction = (value: unknown): boolean => typeof value === "function";
const optional = (rule: string, holds: Rule["holds"]): Rule => ({
  rule: `${rule}, or left out`,
  holds: (value) => value === undefined || holds(value),
});

const rules: Readonly<Record<keyof TaskModule, Rule>> = {
  vocabulary: optional(`text of 2 to ${vocabularyMax} different characters`, isVocabulary),
  tokenizer: optional("the path of a tokenizer's folder", (value) => typeof value === "string" && value !== ""),
  maxPromptTokens: { rule: `a whole number from 1 to ${promptTokensMax}`, holds: isTokenCount },
  trainPrompt: { rule: "a function", holds: isFunction },
  evalPrompt: optional("a function", isFunction),
  encode: optional("a function", isFunction),
  reward: optional("a function", isFunction),
};

/** The task of a module: its export `task`, or its default export. Pure. @throws MUSTER_ERR_TASK_MODULE_INVALID */
export function checkTaskModule(
  exported: Readonly<Record<string, unknown>>,
  { path, source }: ModuleSource,
): TaskModule {
  const task = exported.task ?? exported.default;
  if (typeof task !== "object" || task === null)
    throw errors.TaskModuleInvalid({
      path,
      field: "its export task",
      value: shownValue(task),
      rule: "an object with maxPromptTokens, trainPrompt, and vocabulary or tokenizer",
    });
  const given = task as Readonly<Record<string, unknown>>;
  const fail = (field: string, value: string, rule: string): never => {
    throw errors.TaskModuleInvalid({ path: `${path}${lineOfField(source, field)}`, field, value, rule });
  };
  for (const [field, { rule, holds }] of Object.entries(rules))
    if (!holds(given[field])) fail(field, shownValue(given[field]), rule);
  const unknown = Object.keys(given).find((field) => !(field in rules));
  if (unknown !== undefined)
    fail(unknown, shownValue(given[unknown]), `left out: a task has ${Object.keys(rules).join(", ")}`);
  if ((given.vocabulary === undefined) === (given.tokenizer === undefined))
    fail(
      "vocabulary",
      given.vocabulary === undefined ? "left out, as tokenizer is" : "there beside tokenizer",
      "the only one of the two that is there",
    );
  return task as TaskModule;
}

function isVocabulary(value: unknown): boolean {
  if (typeof value !== "string") return false;
  const characters = [...value];
  return characters.length >= 2 && characters.length <= vocabularyMax && new Set(characters).size === characters.length;
}

function isTokenCount(value: unknown): boolean {
  return Number.isSafeInteger(value) && Number(value) >= 1 && Number(value) <= promptTokensMax;
}

/** The line on which a module first names a field outside of comments, as `:12`; empty when none does. Pure. */
export function lineOfField(source: string, field: string): string {
  const named = new RegExp(`(^|[^\\w$.])${field}\\s*[(:=,}]`);
  const at = source.split("\n").findIndex((line) => !/^\s*(\/\/|\/?\*)/.test(line) && named.test(line));
  return at < 0 ? "" : `:${at + 1}`;
}

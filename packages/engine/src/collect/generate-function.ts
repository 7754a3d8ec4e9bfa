/** Generation by a module: what it is given, what it returns, and how its answer becomes responses. */
import type { Random } from "@muster/base";
import type { Prompt, Task } from "@muster/data";
import type { EngineInfo, Generated, SamplingOptions } from "../engine.ts";
import { errors } from "../errors.ts";
import type { Response } from "./check-response.ts";
import { shownValue } from "./shown-value.ts";

/** One turn that a module asks the engine for. */
export interface TurnRequest {
  /** Everything the engine reads before it draws: prompt, earlier turns, what the environment said. */
  readonly promptIds: ArrayLike<number>;
  /** Over those of the job. */
  readonly sampling?: Partial<SamplingOptions>;
}

/** The engine as a module sees it. It is of no use once the sample is settled. */
export interface EngineHandle {
  info(): EngineInfo;
  /**
   * Draws one response. Turn 0 of a sample draws from the very stream that the engine would use by itself, so a module that asks
   * for one turn changes nothing.
   */
  generate(turn: TurnRequest): Promise<Generated>;
}

/** What a generate function is called with, once for each sample of a group. */
export interface GenerateContext {
  readonly prompt: Prompt;
  /** `<step>.<index>`. */
  readonly groupId: string;
  /** Place in the group, from 0. */
  readonly sample: number;
  /** Responses that are expected. */
  readonly fanOut: number;
  readonly sampling: SamplingOptions;
  readonly task: Pick<Task, "name" | "vocab" | "stopTokenIds" | "maxTokens" | "encode" | "decode">;
  readonly engine: EngineHandle;
  /** A stream of its own: the same for this sample whoever generates it. */
  readonly random: Random;
  /** Aborted when the sample is settled: by its answer, its failure, its deadline or the end of the whole call. */
  readonly signal: AbortSignal;
}

/** One response as a module returns it. */
export interface ModuleResponse {
  readonly responseIds: ArrayLike<number>;
  /** Of each response token; of tokens that the model did not draw, 0. */
  readonly logprobs: ArrayLike<number>;
  /** 0 for tokens that the model did not draw. Default: 1 everywhere. */
  readonly lossMask?: ArrayLike<number>;
  /** Default `stop`. */
  readonly finish?: "stop" | "length";
}

/**
 * Generates one sample.
 *
 * @returns One response; with a declared fan-out over 1, a list of exactly that many.
 */
export type GenerateFunction = ((context: GenerateContext) => Promise<ModuleResponse | readonly ModuleResponse[]>) & {
  /** The file that it comes from, for errors. */
  readonly file?: string;
};

/** Whose answer it is, and how many responses it should have. */
export interface Declared {
  /** The module, as errors name it. */
  readonly from: string;
  readonly fanOut: number;
}

/**
 * The responses in a module's answer, copied, so that nobody can write to them later.
 *
 * @throws MUSTER_ERR_GENERATE_SHAPE for another fan-out than the declared one, MUSTER_ERR_GENERATE_FIELD for an answer that is none.
 */
export function responsesOf(answer: unknown, declared: Declared, version: number): readonly Response[] {
  const { fanOut } = declared;
  const count = Array.isArray(answer) ? answer.length : 1;
  if (Array.isArray(answer) !== fanOut > 1 || count !== fanOut)
    throw errors.GenerateShape({
      ...declared,
      found: shownValue(answer),
      wanted: fanOut > 1 ? `a list of ${fanOut}` : "one",
    });
  return [answer].flat().map((part) => responseOf(part, declared, version));
}

function responseOf(part: unknown, { from }: Declared, version: number): Response {
  if (typeof part !== "object" || part === null)
    throw fieldFault(from, "a response", part, "an object with responseIds and logprobs");
  const { responseIds, logprobs, lossMask, finish = "stop" } = part as Partial<Record<string, unknown>>;
  if (finish !== "stop" && finish !== "length") throw fieldFault(from, "finish", finish, '"stop" or "length"');
  const ids = Int32Array.from(numbersOf("responseIds", responseIds, from));
  const mask = lossMask === undefined ? new Uint8Array(ids.length).fill(1) : numbersOf("lossMask", lossMask, from);
  return {
    responseIds: ids,
    logprobs: Float32Array.from(numbersOf("logprobs", logprobs, from)),
    lossMask: Uint8Array.from(mask, (bit) => (bit === 0 ? 0 : 1)),
    finish,
    // A sample of several turns may span an update: the oldest version is the safe one for staleness.
    segments: [{ version, from: 0, to: ids.length }],
  };
}

/** Whole numbers where ids are wanted: an array would round or wrap silently. */
function numbersOf(field: "responseIds" | "logprobs" | "lossMask", value: unknown, from: string): readonly number[] {
  const isList = Array.isArray(value) || (ArrayBuffer.isView(value) && !(value instanceof DataView));
  const rule = field === "logprobs" ? "a list of numbers" : "a list of whole numbers";
  if (!isList) throw fieldFault(from, field, value, rule);
  const list = Array.from(value as ArrayLike<unknown>);
  const odd = list.findIndex((item) => typeof item !== "number" || (field !== "logprobs" && !Number.isInteger(item)));
  if (odd >= 0) throw fieldFault(from, `${field}[${odd}]`, list[odd], rule);
  return list as number[];
}

function fieldFault(from: string, field: string, value: unknown, rule: string): Error {
  return errors.GenerateField({ from, field, value: shownValue(value), rule });
}

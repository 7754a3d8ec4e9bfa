/** Generation by a module: what it is given, what it returns, and how its answer becomes responses. */
import type { Random } from "@muster/base";
import type { Prompt, Task } from "@muster/data";
import type { EngineInfo, Generated, SamplingOptions } from "../engine.ts";
import { errors } from "../errors.ts";
import type { Response } from "./check-response.ts";

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
export type GenerateFunction = (context: GenerateContext) => Promise<ModuleResponse | readonly ModuleResponse[]>;

/**
 * The responses in a module's answer, copied, so that nobody can write to them later.
 *
 * @throws MUSTER_ERR_GENERATE_SHAPE for another fan-out than the declared one, or an answer that is none.
 */
export function responsesOf(answer: unknown, fanOut: number, version: number): readonly Response[] {
  if (fanOut === 1) {
    if (Array.isArray(answer)) throw errors.GenerateShape({ found: `a list of ${answer.length}`, fanOut });
    return [responseOf(answer, fanOut, version)];
  }
  if (!Array.isArray(answer)) throw errors.GenerateShape({ found: describe(answer), fanOut });
  if (answer.length !== fanOut) throw errors.GenerateShape({ found: `a list of ${answer.length}`, fanOut });
  return answer.map((part) => responseOf(part, fanOut, version));
}

function responseOf(part: unknown, fanOut: number, version: number): Response {
  if (typeof part !== "object" || part === null || Array.isArray(part))
    throw errors.GenerateShape({ found: describe(part), fanOut });
  const { responseIds, logprobs, lossMask, finish = "stop" } = part as Partial<Record<string, unknown>>;
  if (finish !== "stop" && finish !== "length")
    throw errors.GenerateShape({ found: `finish ${String(finish)}`, fanOut });
  const ids = Int32Array.from(numbersOf("responseIds", responseIds, fanOut));
  const mask = lossMask === undefined ? new Uint8Array(ids.length).fill(1) : numbersOf("lossMask", lossMask, fanOut);
  return {
    responseIds: ids,
    logprobs: Float32Array.from(numbersOf("logprobs", logprobs, fanOut)),
    lossMask: Uint8Array.from(mask, (bit) => (bit === 0 ? 0 : 1)),
    finish,
    // A sample of several turns may span an update: the oldest version is the safe one for staleness.
    segments: [{ version, from: 0, to: ids.length }],
  };
}

/** Whole numbers where ids are wanted: an array would round or wrap silently. */
function numbersOf(field: string, value: unknown, fanOut: number): readonly number[] {
  const isList = Array.isArray(value) || (ArrayBuffer.isView(value) && !(value instanceof DataView));
  if (!isList) throw errors.GenerateShape({ found: `${field} of ${describe(value)}`, fanOut });
  const list = Array.from(value as ArrayLike<unknown>);
  const odd = list.find((item) => typeof item !== "number" || (field !== "logprobs" && !Number.isInteger(item)));
  if (odd !== undefined) throw errors.GenerateShape({ found: `${field} with ${describe(odd)}`, fanOut });
  return list as number[];
}

function describe(value: unknown): string {
  if (typeof value === "number" || value === null || value === undefined) return String(value);
  return Array.isArray(value) ? `a list of ${value.length}` : `a value of type ${typeof value}`;
}

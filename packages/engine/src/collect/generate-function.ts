/** Generation by a module: what it is given, what it returns, and how its answer becomes responses. */
import { type ChatMessage, type GenerateContext, type GenerateModule, type Places, shownValue } from "@muster/base";
import { errors } from "../errors.ts";
import type { Response } from "./check-response.ts";
import { judgedOf } from "./judgement.ts";

/** What a generate function is called with here. */
export interface SampleContext extends GenerateContext {
  /** Key of `random`, but for {@link moduleStream}. */
  readonly randomKey: readonly number[];
}

/** Keeps the random numbers of modules apart from those of the engine. */
export const moduleStream = 0x6d6f64;

/** Generates one sample, and knows where it comes from. */
export type GenerateFunction = ((context: SampleContext) => ReturnType<GenerateModule>) & {
  /** The file that it comes from, for errors. */
  readonly file?: string;
  /** It ends by itself, in the time of one sample, and runs no code of others in this process. */
  readonly isBounded?: true;
  /** Who waits there runs once it may, or again; absent: nobody waits. A wait takes nothing of a sample's time. */
  readonly places?: Pick<Places, "use">;
  /** As that of a reward. */
  onStarting?(run: () => void): void;
  /** Gives back what it holds. */
  close?(): Promise<void>;
};

/** A generate function as errors name it: by the user's own file. */
export const nameOfGenerate = (file: string | undefined): string =>
  file ? `the generate function of ${file}` : "the generate function";

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
  const { responseIds, logprobs, lossMask, finish = "stop", ...rest } = part as Partial<Record<string, unknown>>;
  const { promptIds, versions, reward, messages } = rest;
  if (finish !== "stop" && finish !== "length") throw fieldFault(from, "finish", finish, '"stop" or "length"');
  const ids = new Int32Array(numbersOf("responseIds", responseIds, from));
  const mask = lossMask === undefined ? new Uint8Array(ids.length).fill(1) : numbersOf("lossMask", lossMask, from);
  return {
    responseIds: ids,
    logprobs: new Float32Array(numbersOf("logprobs", logprobs, from)),
    lossMask: Uint8Array.from(mask, (bit) => (bit === 0 ? 0 : 1)),
    finish,
    // A sample of several turns may span an update: the oldest version is the safe one for staleness.
    segments:
      versions === undefined
        ? [{ version, from: 0, to: ids.length }]
        : segmentsIn(numbersOf("versions", versions, from), ids.length, from),
    ...(promptIds === undefined ? {} : { promptIds: promptIn(numbersOf("promptIds", promptIds, from), from) }),
    ...(reward === undefined ? {} : { judged: judgedOf(reward, from) }),
    ...(messages === undefined ? {} : { messages: messages as readonly ChatMessage[] }),
  };
}

function promptIn(ids: Numbers, from: string): Int32Array {
  if (ids.length === 0) throw fieldFault(from, "promptIds", ids, "a list of at least one token");
  return Int32Array.from(ids);
}

/** Runs of one version. */
function segmentsIn(versions: Numbers, length: number, from: string): Response["segments"] {
  if (versions.length !== length) throw fieldFault(from, "versions", versions, `a list of ${length} versions`);
  const begins = [...versions.keys()].filter((at) => at === 0 || versions[at] !== versions[at - 1]);
  return begins.map((at, run) => ({ version: versions[at] as number, from: at, to: begins[run + 1] ?? length }));
}

/** Whole numbers where ids are wanted: an array would round or wrap silently. */
type ListField = "responseIds" | "logprobs" | "lossMask" | "promptIds" | "versions";

type Numbers = readonly number[] | Int32Array | Uint8Array | Float32Array | Float64Array;

function numbersOf(field: ListField, value: unknown, from: string): Numbers {
  const isList = Array.isArray(value) || (ArrayBuffer.isView(value) && !(value instanceof DataView));
  const rule = field === "logprobs" ? "a list of numbers" : "a list of whole numbers";
  if (!isList) throw fieldFault(from, field, value, rule);
  // Of these every element is what it must be.
  if (value instanceof Int32Array || value instanceof Uint8Array) return value;
  if (field === "logprobs" && (value instanceof Float32Array || value instanceof Float64Array)) return value;
  const list = Array.from(value as ArrayLike<unknown>);
  const odd = list.findIndex((item) => typeof item !== "number" || (field !== "logprobs" && !Number.isInteger(item)));
  if (odd >= 0) throw fieldFault(from, `${field}[${odd}]`, list[odd], rule);
  return list as number[];
}

function fieldFault(from: string, field: string, value: unknown, rule: string): Error {
  return errors.GenerateField({ from, field, value: shownValue(value), rule });
}

/** What one kind of inference server understands: its routes and the fields of its answers, and nothing of when they are used. */
import { hasCode, messageOf } from "@muster/base";
import { errors } from "../errors.ts";
import type { ServerClient } from "./client.ts";

/** One response that is wanted. */
export interface Draw {
  /** Unique among all that were ever sent by this engine. */
  readonly id: string;
  readonly promptIds: Int32Array;
  /** Of this response alone; 0 … 2^31 − 1. */
  readonly seed: number;
  readonly temperature: number;
  readonly maxNewTokens: number;
  readonly stopTokenIds: readonly number[];
  /** Name of the model, for servers that want one. */
  readonly model: string;
}

/** One response as a server said it. Ids, counts and versions are still to be checked. */
export interface Drawn {
  readonly ids: readonly number[];
  /** Of each token. */
  readonly logprobs: readonly number[];
  readonly finish: "stop" | "length" | "abort";
  /** Weights of each token, as the server names them; empty when it does not say. */
  readonly versions: readonly string[];
}

/** Weights in a folder or file that the server can read. */
export interface WeightPlace {
  readonly path: string;
  /** How this engine names them to servers. */
  readonly tag: string;
  /** Some of their numbers, of `WeightSample`; `null` when this engine has not seen them. */
  readonly sample: Uint16Array | null;
}

/** What a server says of itself. */
export interface ServerFacts {
  /** As it is served; empty when it is not said. */
  readonly model: string;
  /** Name of the weights; `null` when the server has no word for it. */
  readonly version: string | null;
  /** Other facts, for people: name and value. */
  readonly more: Readonly<Record<string, string>>;
}

/** A kind of server. */
export interface Dialect {
  readonly kind: "openai" | "sglang" | "vllm";
  /** Every answer says of which weights it is; one that does not is of nobody knows which. */
  readonly stamps: boolean;
  /** Of which distribution its log-probabilities are unless it was started otherwise. */
  readonly logprobs: "raw" | "sampled-dist";
  /** Route that says whether it lives. */
  readonly healthPath: string;
  /** Route that generates a token to say so; `null`: one is drawn as any other. */
  readonly deepHealthPath: string | null;
  request(draw: Draw): { readonly path: string; readonly body: object };
  /** @throws an error that says what is wrong, as the end of the sentence "its answer …". Pure. */
  drawnIn(answer: Readonly<Record<string, unknown>>): Drawn;
  facts(client: ServerClient, signal: AbortSignal): Promise<ServerFacts>;
  /** Loads weights while nothing is drawn. Whatever fails in it, generation goes on again, or it throws. Absent: it can not. */
  load?(client: ServerClient, place: WeightPlace, timeoutMs: number): Promise<void>;
  /** Route that hashes the weights which are loaded. Absent: the kind has none. */
  readonly checksum?: {
    readonly path: string;
    /** Each tensor of each rank with its checksum; `null` when the answer has none. Pure. */
    sumsIn(answer: Readonly<Record<string, unknown>>): readonly (readonly [name: string, sum: string])[] | null;
  };
  /** Ends requests that run; a server without it ends them when their connection closes. */
  abort?(client: ServerClient, ids: readonly string[]): Promise<void>;
}

/**
 * Runs `run` between a pause and its end, which comes whatever `run` does. A pause that was refused was none; one without an answer may have been heard.
 *
 * @throws what `pause` and `run` throw; MUSTER_ERR_SERVER_PAUSED when the end fails, so that nobody takes the server for one that serves
 */
export async function whilePaused(
  client: Pick<ServerClient, "url">,
  pause: () => Promise<unknown>,
  run: () => Promise<unknown>,
  resume: () => Promise<unknown>,
): Promise<void> {
  let failure: unknown = null;
  try {
    await pause();
    await run();
  } catch (error) {
    if (hasCode(error, "MUSTER_ERR_SERVER_ROUTES")) throw error;
    failure = error;
  }
  try {
    await resume();
  } catch (error) {
    const after = failure === null ? "" : `, after ${messageOf(failure)}`;
    throw errors.ServerPaused({ url: client.url, reason: `${messageOf(error)}${after}` }, error);
  }
  if (failure !== null) throw failure;
}

/** A list of numbers in an answer. @throws naming the field */
export function numbersIn(value: unknown, field: string): number[] {
  return listIn(value, field, (one) => typeof one === "number");
}

/** A list of texts in an answer. @throws naming the field */
export function textsIn(value: unknown, field: string): string[] {
  return listIn(value, field, (one) => typeof one === "string");
}

function listIn<T>(value: unknown, field: string, isOne: (one: unknown) => boolean): T[] {
  if (!Array.isArray(value)) throw new Error(`has no list ${field}`);
  const odd = value.findIndex((one) => !isOne(one));
  if (odd >= 0) throw new Error(`has ${JSON.stringify(value[odd])} in ${field}`);
  return value as T[];
}

/** How a response ended. @throws for another word */
export function finishIn(value: unknown): Drawn["finish"] {
  if (value === "stop" || value === "length" || value === "abort") return value;
  throw new Error(`ends with ${JSON.stringify(value)}, which is none of stop, length, abort`);
}

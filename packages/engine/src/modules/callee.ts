/** The module in its process: loaded, and called with what a reward or a generate function is given. */
import {
  type ChatMessage,
  type EngineHandle,
  type Judgement,
  type Prompt,
  randomOf,
  type TurnRequest,
} from "@muster/base";
import type { JobConfig } from "@muster/protocol";
import { moduleStream, nameOfGenerate, responsesOf, type SampleContext } from "../collect/generate-function.ts";
import { judgedOf } from "../collect/judgement.ts";
import type { EngineInfo, Generated, RewardInput } from "../engine.ts";
import { errors } from "../errors.ts";
import { loadGenerate, loadReward } from "./load-function.ts";
import { generatedOf, type Packed, packed, type ToModule, unpacked } from "./wire.ts";
import { errorOf } from "./wired-error.ts";

type AboutTurn = Extract<ToModule, { readonly type: "drawn" | "soFar" | "undrawn" }>;

/** What a call may use. */
export interface CallTools {
  readonly signal: AbortSignal;
  /** Names who hears of turns. */
  listen(hear: (message: AboutTurn) => void): void;
  draw(turn: number, request: object): void;
  /** Enough of a turn is drawn. */
  over(turn: number): void;
  /** This error is that of a turn. */
  isOf(error: object, turn: number): void;
}

/** A loaded module. @returns What is sent for a call. */
export type Callee = (tools: CallTools, input: Readonly<Record<string, unknown>>) => Promise<unknown>;

/** Loads a module. @throws MUSTER_ERR_MODULE_UNLOADABLE, MUSTER_ERR_MODULE_EXPORT, and as tokenizers can not be opened */
export async function openCallee({ use, path, texts }: Extract<ToModule, { readonly type: "open" }>): Promise<Callee> {
  if (use === "reward") {
    const { score } = await loadReward(path);
    return async ({ signal }, input) => judgementOf(await score(rewardInputOf(input), signal), path);
  }
  const generate = await loadGenerate(path);
  const { openTexts } = await import("@muster/data");
  const { encode, decode } = await openTexts(texts as Pick<JobConfig, "task" | "taskModule" | "prompts">);
  const from = nameOfGenerate(path);
  return async (tools, input) => {
    const { info, task, prompt, ...rest } = input as unknown as WiredSample;
    const { randomKey, fanOut } = rest;
    const answer: unknown = await generate({
      ...{ ...rest, prompt: promptOf(prompt), task: { ...task, encode, decode } },
      engine: new TurnsOfCall(tools, info),
      random: randomOf(...randomKey, moduleStream),
      signal: tools.signal,
    });
    return wiredAnswer(answer, { from, fanOut });
  };
}

/** A prompt, and a sample, as they travel. */
type WiredPrompt = Omit<Prompt, "ids"> & { readonly ids: Packed<"i32"> };
type WiredSample = Omit<SampleContext, "prompt" | "task" | "engine" | "random" | "signal"> & {
  readonly info: EngineInfo;
  readonly prompt: WiredPrompt;
  readonly task: Omit<SampleContext["task"], "encode" | "decode">;
};

const promptOf = ({ ids, ...rest }: WiredPrompt): Prompt => ({ ...rest, ids: unpacked("i32", ids) });

function rewardInputOf(input: Readonly<Record<string, unknown>>): RewardInput {
  const { prompt, responseIds, ...rest } = input as unknown as Omit<RewardInput, "prompt" | "responseIds"> & {
    readonly prompt: WiredPrompt;
    readonly responseIds: Packed<"i32">;
  };
  return { ...rest, prompt: promptOf(prompt), responseIds: unpacked("i32", responseIds) };
}

/** An answer of a reward, checked here, where it is still what the module returned. */
function judgementOf(answer: unknown, name: string): Judgement {
  const { reward, components, metadata } = judgedOf(answer, name);
  return {
    reward,
    ...(components ? { components: Object.fromEntries(components.map((one) => [one.name, one.value])) } : {}),
    ...(metadata === undefined ? {} : { metadata: JSON.parse(metadata) as Judgement["metadata"] & {} }),
  };
}

/** An answer of a generate function, checked as its responses are. */
function wiredAnswer(answer: unknown, declared: { readonly from: string; readonly fanOut: number }): unknown {
  const wired = responsesOf(answer, declared, 0).map(({ segments: _, promptIds, judged: __, ...response }, at) => {
    const given = [answer].flat()[at] as { readonly versions?: ArrayLike<number>; readonly reward?: unknown };
    const { responseIds, logprobs, lossMask, finish, messages } = response;
    return {
      ...{
        responseIds: packed("i32", responseIds),
        logprobs: packed("f32", logprobs),
        lossMask: packed("u8", lossMask),
      },
      finish,
      ...(promptIds ? { promptIds: packed("i32", promptIds) } : {}),
      ...(given.versions === undefined ? {} : { versions: packed("f64", Float64Array.from(given.versions)) }),
      ...(given.reward === undefined ? {} : { reward: judgementOf(given.reward, declared.from) }),
      ...(messages === undefined ? {} : { messages: messages as readonly ChatMessage[] }),
    };
  });
  return Array.isArray(answer) ? wired : wired[0];
}

interface Waiting {
  readonly resolve: (generated: Generated) => void;
  readonly reject: (error: unknown) => void;
  readonly isOver: TurnRequest["isOver"];
}

/** The engine as the code of one call sees it. */
class TurnsOfCall implements EngineHandle {
  readonly #tools: CallTools;
  readonly #info: EngineInfo;
  readonly #waiting = new Map<number, Waiting>();
  #turns = 0;

  constructor(tools: CallTools, info: EngineInfo) {
    this.#tools = tools;
    this.#info = info;
    tools.listen((message) => this.#hear(message));
  }

  info(): EngineInfo {
    return this.#info;
  }

  async generate({ promptIds, sampling, seed, isOver }: TurnRequest): Promise<Generated> {
    const { signal } = this.#tools;
    const turn = this.#turns++;
    if (signal.aborted) throw errors.SampleSettled({ requestId: `of turn ${turn}` });
    if (seed !== undefined && !Number.isFinite(seed)) throw new TypeError(`seed is ${seed}; it must be a whole number`);
    const request = {
      promptIds: packed("i32", Int32Array.from(promptIds)),
      ...(sampling === undefined ? {} : { sampling }),
      ...(seed === undefined ? {} : { seed }),
      mayEnd: isOver !== undefined,
    };
    return await new Promise<Generated>((resolve, reject) => {
      this.#waiting.set(turn, { resolve, reject, isOver });
      this.#tools.draw(turn, request);
    });
  }

  #hear(message: AboutTurn): void {
    const { turn } = message;
    const waiting = this.#waiting.get(turn);
    if (!waiting) return;
    if (message.type === "soFar") {
      if (waiting.isOver?.(generatedOf(message.generated))) this.#tools.over(turn);
      return;
    }
    this.#waiting.delete(turn);
    if (message.type === "drawn") {
      waiting.resolve(generatedOf(message.generated));
      return;
    }
    const error = errorOf(message.error);
    if (typeof error === "object" && error !== null) this.#tools.isOf(error, turn);
    waiting.reject(error);
  }
}

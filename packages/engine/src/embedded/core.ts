/**
 * The compiled core and its memory. One instance per engine; nothing is shared between instances, so worker threads
 * and engines cannot disturb each other. All memory is reserved when an engine is made, hence views stay valid.
 */
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import type { EngineInfo } from "../engine.ts";
import { errors } from "../errors.ts";
import { checkModel, type ModelConfig, modelIdOf } from "./model-config.ts";

/** Byte offset into the core's memory. */
export type Address = number;

interface Variable {
  readonly value: Address;
}

/** Calls that cross into the core. Addresses come from `reserve` or from the variables below. */
export interface CoreCalls {
  readonly memory: { readonly buffer: ArrayBuffer };
  reserve(values: number): Address;
  defineModel(...shape: readonly number[]): void;
  defineSampler(slots: number): void;
  initialize(weights: Address, seed: number): void;
  forward(weights: Address, batch: number, length: number): void;
  /** Inverse of the temperature of the training passes from now on; 1 at first. */
  setSharpness(value: number): void;
  backward(weights: Address, gradient: Address, batch: number, length: number): void;
  norm(values: Address, count: number): number;
  adamw(...numbers: readonly number[]): void;
  exponential(x: number): number;
  copySlot(from: number, to: number): void;
  decode(weights: Address, rows: number): void;
  /** One of several ranks, in place of a sampler; `rank.ts` of the core says what each of these computes. */
  defineRank(slots: number, rank: number, ranks: number, vocabRows: number): void;
  attendPart(layer: number, rows: number, ...weights: readonly Address[]): void;
  gatePart(rows: number, ...weights: readonly Address[]): void;
  addPart(rows: number, weight: Address, inputs: number): void;
  logitsPart(rows: number, norm: Address, weight: Address, outputs: number): void;
  placePart(part: Address, ...place: readonly number[]): void;
  chooseRows(rows: number): void;
  readonly parameters: Variable;
  readonly tokens: Variable;
  readonly logprobs: Variable;
  readonly entropies: Variable;
  readonly coefficients: Variable;
  readonly entropyCoefficients: Variable;
  readonly rankPart: Variable;
  readonly rankArrived: Variable;
  readonly rankWhole: Variable;
  readonly rankStream: Variable;
  readonly rankLogits: Variable;
  readonly rowTokens: Variable;
  readonly rowPositions: Variable;
  readonly rowSlots: Variable;
  readonly rowSharpness: Variable;
  readonly rowUniforms: Variable;
  readonly rowChoices: Variable;
  readonly rowLogprobs: Variable;
}

/** An instance of the core with a model defined in it. */
export interface Core {
  readonly model: ModelConfig;
  readonly call: CoreCalls;
  readonly parameters: number;
  floats(at: Address, count: number): Float32Array;
  integers(at: Address, count: number): Int32Array;
  bytes(at: Address, count: number): Uint8Array;
}

/**
 * Raised whenever sampling, planning, advantages or the loss compute other bits than before: the golden run in
 * `test/revision.test.ts` tells.
 */
const algorithmsRevision = 2;

let compiled: { readonly module: WebAssembly.Module; readonly build: string } | undefined;

function load(): { readonly module: WebAssembly.Module; readonly build: string } {
  if (!compiled) {
    const bytes = readFileSync(new URL("../../wasm/engine.wasm", import.meta.url));
    const digest = createHash("sha256").update(bytes).digest("hex");
    compiled = {
      module: new WebAssembly.Module(bytes),
      build: `embedded-wasm-${digest.slice(0, 12)}-r${algorithmsRevision}`,
    };
  }
  return compiled;
}

/**
 * Build of the embedded engine: `embedded-wasm-`, the start of the digest of its code, and the revision of the algorithms around it.
 * Two replicas of one build compute the same bits.
 */
export function embeddedBuild(): string {
  return load().build;
}

/** Description of an embedded engine. */
export function embeddedInfo(model: ModelConfig, ranks = 1): EngineInfo {
  return {
    kind: "embedded",
    build: embeddedBuild(),
    modelId: modelIdOf(model),
    vocab: model.vocab,
    maxContext: model.maxContext,
    ranks,
    logprobs: "sampled-dist",
    resumes: true,
  };
}

/**
 * Makes an instance.
 *
 * @param sizes - `tokens`: capacity of one forward pass; `slots`: rows of the sampler (0 = no sampler).
 * @throws MUSTER_ERR_ENGINE_MODEL_INVALID, MUSTER_ERR_ENGINE_OUT_OF_MEMORY
 */
export function openCore(model: ModelConfig, sizes: { readonly tokens: number; readonly slots: number }): Core {
  return openWith(model, sizes.tokens, (call) => {
    if (sizes.slots > 0) call.defineSampler(sizes.slots);
  });
}

/** Makes the instance of one of several ranks. @throws as {@link openCore} */
export function openRankCore(
  model: ModelConfig,
  at: { readonly slots: number; readonly rank: number; readonly ranks: number; readonly vocabRows: number },
): Core {
  return openWith(model, 0, (call) => call.defineRank(at.slots, at.rank, at.ranks, at.vocabRows));
}

function openWith(model: ModelConfig, tokensMax: number, define: (call: CoreCalls) => void): Core {
  checkModel(model);
  // The binary is ours and built with this file; a mismatch fails the first test.
  const call = new WebAssembly.Instance(load().module).exports as unknown as CoreCalls;
  const { vocab, hidden, layers, heads, kvHeads, ffn, maxContext, tied } = model;
  reserving(modelIdOf(model), () => {
    call.defineModel(vocab, hidden, layers, heads, kvHeads, ffn, maxContext, tied ? 1 : 0, tokensMax);
    define(call);
  });
  return {
    model,
    call,
    parameters: call.parameters.value,
    floats: (at, count) => new Float32Array(call.memory.buffer, at, count),
    integers: (at, count) => new Int32Array(call.memory.buffer, at, count),
    bytes: (at, count) => new Uint8Array(call.memory.buffer, at, count),
  };
}

/** Runs a reservation and names what did not fit. */
export function reserving<T>(what: string, run: () => T): T {
  try {
    return run();
  } catch (cause) {
    throw errors.EngineOutOfMemory({ what }, cause);
  }
}

/** Lets other work of the process run. */
export function breathe(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

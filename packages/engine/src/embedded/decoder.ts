/** What computes next tokens for the sampler: the core in this thread, or several ranks. */
import type { SectionSource } from "../engine.ts";
import { errors } from "../errors.ts";
import { type Core, openCore, reserving } from "./core.ts";
import type { ModelConfig } from "./model-config.ts";

/** Rows of one pass: what goes in, and what comes out. One value per row, as many as there are slots. */
export interface Batch {
  readonly tokens: Int32Array;
  readonly positions: Int32Array;
  /** Cache slot of each row. */
  readonly slots: Int32Array;
  /** Inverse temperature; 0 takes the likeliest token. */
  readonly sharpness: Float32Array;
  /** In [0, 1): decides the draw. */
  readonly uniforms: Float64Array;
  /** The tokens that were chosen. */
  readonly choices: Int32Array;
  /** Their log-probs. */
  readonly logprobs: Float32Array;
}

/** Weights as they come to a decoder: whole, or each rank's part. */
export type WeightsIn =
  | ({ readonly kind: "whole" } & SectionSource)
  | { readonly kind: "shards"; readonly shards: readonly Uint8Array<ArrayBuffer>[] };

/** Computes next tokens, with a cache of slots. */
export interface Decoder {
  readonly model: ModelConfig;
  /** What a row of a pass costs, in parameters read. */
  readonly parameters: number;
  readonly batch: Batch;
  /** Copies the cache of one slot to another, before the next pass. */
  copySlot(from: number, to: number): void;
  /** Feeds the first `rows` rows of the batch, and fills their choices and log-probs. */
  decode(rows: number): Promise<void> | undefined;
  /** @throws MUSTER_ERR_ENGINE_STATE_LENGTH, MUSTER_ERR_ENGINE_OPTION_INVALID for weights that do not fit. */
  check(weights: WeightsIn): void;
  /** Weights that were checked. @throws What the source throws: what was there before is then gone. */
  load(weights: WeightsIn): Promise<void>;
  /** Why it computes nothing any more; `null` while it does. */
  failure(): Error | null;
  /** Calls `run` with that cause, unless it was closed before. */
  onLost(run: (cause: Error) => void): void;
  close(): Promise<void>;
}

/** A decoder in this thread, which has the whole model. */
export function openCoreDecoder(model: ModelConfig, slots: number): Decoder {
  const core = openCore(model, { tokens: 0, slots });
  const { call, parameters } = core;
  const weights = reserving("weights", () => call.reserve(parameters));
  return {
    model,
    parameters,
    batch: batchOf(core, slots),
    copySlot: (from, to) => call.copySlot(from, to),
    decode(rows) {
      call.decode(weights, rows);
      return undefined;
    },
    check: (given) => mustHaveBytes(wholeOf(given).bytes, 4 * parameters),
    async load(given) {
      await wholeOf(given).copyTo(core.bytes(weights, 4 * parameters));
    },
    failure: () => null,
    onLost: () => {},
    close: async () => {},
  };
}

/** @throws MUSTER_ERR_ENGINE_STATE_LENGTH */
export function mustHaveBytes(bytes: number, expectedBytes: number, section = "weights"): void {
  if (bytes !== expectedBytes) throw errors.EngineStateLength({ section, bytes, expectedBytes });
}

/** An engine of one rank has its weights without gaps, as they were published. */
function wholeOf(weights: WeightsIn): SectionSource {
  if (weights.kind === "whole") return weights;
  throw errors.EngineOptionInvalid({ field: "via", value: "shards", rule: "inline or disk for an engine of one rank" });
}

/** The rows where a core keeps them. Nothing is reserved afterwards, so the views stay valid. */
export function batchOf({ call, integers, floats }: Core, slots: number): Batch {
  return {
    tokens: integers(call.rowTokens.value, slots),
    positions: integers(call.rowPositions.value, slots),
    slots: integers(call.rowSlots.value, slots),
    sharpness: floats(call.rowSharpness.value, slots),
    uniforms: new Float64Array(call.memory.buffer, call.rowUniforms.value, slots),
    choices: integers(call.rowChoices.value, slots),
    logprobs: floats(call.rowLogprobs.value, slots),
  };
}

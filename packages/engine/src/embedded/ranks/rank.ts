/** One rank: its part of the model in memory of its own, and the passes that it computes together with the others. */
import { type Address, type Core, openRankCore, reserving } from "../core.ts";
import { type Batch, batchOf } from "../decoder.ts";
import { type Exchange, openExchange, type SharedExchange, sharedBatchOf } from "./exchange.ts";
import { cutOf, rankSectionOf } from "./rank-section.ts";

/** What a rank is made of. */
export interface RankOptions {
  readonly model: Core["model"];
  readonly rank: number;
  readonly shared: SharedExchange;
}

/** Copies of cache slots, in order: from, to. */
export type SlotCopies = readonly (readonly [from: number, to: number])[];

/** A rank. All ranks of a replica are told the same. */
export class Rank {
  readonly #core: Core;
  readonly #rank: number;
  readonly #shared: SharedExchange;
  readonly #exchange: Exchange;
  readonly #batch: Batch;
  readonly #own: Batch;
  readonly #weights: Address;
  readonly #bytes: number;
  readonly #tensors: ReadonlyMap<string, Address>;

  /** @throws MUSTER_ERR_ENGINE_OUT_OF_MEMORY */
  constructor({ model, rank, shared }: RankOptions) {
    const { ranks, slots } = shared;
    const { bytes, parts } = rankSectionOf(model, { rank, ranks });
    this.#core = openRankCore(model, { slots, rank, ranks, vocabRows: cutOf(model.vocab, 0, ranks).length });
    this.#weights = reserving(`weights of rank ${rank}`, () => this.#core.call.reserve(Math.ceil(bytes / 4)));
    this.#bytes = bytes;
    this.#tensors = new Map(parts.map(({ tensor, offset }) => [tensor, this.#weights + offset]));
    this.#rank = rank;
    this.#shared = shared;
    this.#exchange = openExchange(shared);
    this.#batch = sharedBatchOf(shared);
    this.#own = batchOf(this.#core, slots);
  }

  /** Takes its part of new weights. */
  load(section: Uint8Array): void {
    this.#core.bytes(this.#weights, this.#bytes).set(section);
  }

  /** One pass over the first `rows` rows of the batch. @throws MUSTER_ERR_ENGINE_RANK_LOST */
  decode(rows: number, copies: SlotCopies): void {
    const { call, model } = this.#core;
    for (const [from, to] of copies) call.copySlot(from, to);
    for (const field of ["tokens", "positions", "slots", "sharpness", "uniforms"] as const) {
      this.#own[field].set(this.#batch[field].subarray(0, rows));
    }
    this.#embed(rows);
    for (let layer = 0; layer < model.layers; layer++) this.#layer(layer, rows);
    const [norm, head] = ["model.norm.weight", model.tied ? "model.embed_tokens.weight" : "lm_head.weight"];
    call.logitsPart(rows, this.#at(norm), this.#at(head), this.#vocabOf(this.#rank).length);
    const [logits, stride] = [call.rankLogits.value, Math.ceil(model.vocab / 4) * 4];
    this.#gather(rows, { target: logits, stride, cut: (rank) => this.#vocabOf(rank), isWanted: this.#rank === 0 });
    if (this.#rank === 0) this.#choose(rows);
  }

  #layer(layer: number, rows: number): void {
    const { call, model } = this.#core;
    const { hidden, ffn } = model;
    const { ranks } = this.#shared;
    const at = (name: string): Address => this.#at(`model.layers.${layer}.${name}.weight`);
    const [whole, stream] = [call.rankWhole.value, call.rankStream.value];
    const evenly = (size: number) => (rank: number) => cutOf(size, rank, ranks);
    const attention = ["q_proj", "k_proj", "v_proj"].map((name) => at(`self_attn.${name}`));
    call.attendPart(layer, rows, at("input_layernorm"), ...attention);
    this.#gather(rows, { target: whole, stride: hidden, cut: evenly(hidden) });
    call.addPart(rows, at("self_attn.o_proj"), hidden);
    this.#gather(rows, { target: stream, stride: hidden, cut: evenly(hidden) });
    call.gatePart(rows, at("post_attention_layernorm"), at("mlp.gate_proj"), at("mlp.up_proj"));
    this.#gather(rows, { target: whole, stride: ffn, cut: evenly(ffn) });
    call.addPart(rows, at("mlp.down_proj"), ffn);
    this.#gather(rows, { target: stream, stride: hidden, cut: evenly(hidden) });
  }

  /** Fills the residual stream: each token's row comes from the rank that has it. */
  #embed(rows: number): void {
    const { call, floats, model } = this.#core;
    const { start, length } = this.#vocabOf(this.#rank);
    const table = this.#at("model.embed_tokens.weight");
    const place = this.#exchange.place();
    for (let row = 0; row < rows; row++) {
      const own = this.#batch.tokens[row]! - start;
      if (own < 0 || own >= length) continue;
      place.set(floats(table + 4 * own * model.hidden, model.hidden), row * model.hidden);
    }
    this.#exchange.meet();
    floats(call.rankStream.value, rows * model.hidden).set(place.subarray(0, rows * model.hidden));
  }

  /** Gives the others this rank's part, and places the parts of all, in the order of their columns. */
  #gather(rows: number, { target, stride, cut, isWanted = true }: Gather): void {
    const { call, floats } = this.#core;
    const place = this.#exchange.place();
    const part = floats(call.rankPart.value, rows * cut(this.#rank).length);
    place.set(part, this.#exchange.partAt(this.#rank));
    this.#exchange.meet();
    if (!isWanted) return;
    for (let rank = 0; rank < this.#shared.ranks; rank++) {
      const { start, length } = cut(rank);
      const at = this.#exchange.partAt(rank);
      floats(call.rankArrived.value, rows * length).set(place.subarray(at, at + rows * length));
      call.placePart(call.rankArrived.value, length, rows, target + 4 * start, stride);
    }
  }

  #choose(rows: number): void {
    this.#core.call.chooseRows(rows);
    this.#batch.choices.set(this.#own.choices.subarray(0, rows));
    this.#batch.logprobs.set(this.#own.logprobs.subarray(0, rows));
  }

  #vocabOf(rank: number): { readonly start: number; readonly length: number } {
    return cutOf(this.#core.model.vocab, rank, this.#shared.ranks);
  }

  #at(tensor: string): Address {
    return this.#tensors.get(tensor)!;
  }
}

interface Gather {
  /** Where the columns of all ranks go, and how many values apart its rows are. */
  readonly target: Address;
  readonly stride: number;
  /** Columns of a rank. */
  readonly cut: (rank: number) => { readonly start: number; readonly length: number };
  /** False where nobody reads the whole. */
  readonly isWanted?: boolean;
}

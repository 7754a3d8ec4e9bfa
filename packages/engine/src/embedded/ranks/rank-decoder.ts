/** Several ranks as one decoder: a thread for each, with memory of its own. They are one failure domain: the end of one ends all. */
import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { Worker } from "node:worker_threads";
import { messageOf } from "@muster/base";
import { errors } from "../../errors.ts";
import { type Batch, type Decoder, mustHaveBytes, type WeightsIn } from "../decoder.ts";
import { type ModelConfig, parametersOf } from "../model-config.ts";
import { breakExchange, type SharedExchange, sharedBatchOf, shareExchange } from "./exchange.ts";
import type { RankOrder, RankStart } from "./messages.ts";
import { checkRanks, type RankSection, rankSectionOf } from "./rank-section.ts";

interface Pending {
  readonly resolve: () => void;
  readonly reject: (error: Error) => void;
}

interface RankThread {
  readonly worker: Worker;
  /** Orders without an answer, the oldest first. */
  readonly pending: Pending[];
}

/** Starts the ranks. @throws MUSTER_ERR_ENGINE_MODEL_INVALID, MUSTER_ERR_ENGINE_OPTION_INVALID, MUSTER_ERR_ENGINE_RANK_LOST */
export function openRankDecoder(model: ModelConfig, slots: number, ranks: number): Decoder {
  checkRanks(model, ranks);
  return new RankDecoder(model, slots, ranks);
}

class RankDecoder implements Decoder {
  readonly model: ModelConfig;
  readonly parameters: number;
  readonly batch: Batch;
  readonly #shared: SharedExchange;
  readonly #sections: readonly RankSection[];
  readonly #threads: readonly RankThread[];
  readonly #watchers: ((cause: Error) => void)[] = [];
  #copies: [number, number][] = [];
  #failure: Error | null = null;

  constructor(model: ModelConfig, slots: number, ranks: number) {
    this.model = model;
    this.parameters = parametersOf(model) / ranks;
    this.#shared = shareExchange(model, ranks, slots);
    this.batch = sharedBatchOf(this.#shared);
    this.#sections = Array.from({ length: ranks }, (_, rank) => rankSectionOf(model, { rank, ranks }));
    this.#threads = this.#sections.map((_, rank) => this.#start(rank));
  }

  copySlot(from: number, to: number): void {
    this.#copies.push([from, to]);
  }

  async decode(rows: number): Promise<void> {
    const copies = this.#copies;
    this.#copies = [];
    await Promise.all(this.#threads.map((thread) => this.#tell(thread, { kind: "decode", rows, copies })));
  }

  check(weights: WeightsIn): void {
    if (weights.kind === "whole") {
      mustHaveBytes(weights.bytes, 4 * parametersOf(this.model));
      return;
    }
    const [value, ranks] = [weights.shards.length, this.#threads.length];
    if (value !== ranks)
      throw errors.EngineOptionInvalid({ field: "shards", value, rule: `one for each of ${ranks} ranks` });
    for (const [rank, { length }] of weights.shards.entries())
      mustHaveBytes(length, this.#sections[rank]!.bytes, `the weights of rank ${rank}`);
  }

  async load(weights: WeightsIn): Promise<void> {
    const shards = weights.kind === "shards" ? weights.shards : await this.#cut(weights);
    await Promise.all(this.#threads.map((thread, i) => this.#tell(thread, { kind: "load", section: shards[i]! })));
  }

  failure(): Error | null {
    return this.#failure;
  }

  onLost(run: (cause: Error) => void): void {
    if (this.#failure) run(this.#failure);
    else this.#watchers.push(run);
  }

  async close(): Promise<void> {
    this.#watchers.splice(0);
    this.#end(errors.EngineClosed({ operation: "a rank" }));
    await Promise.all(this.#threads.map(({ worker }) => worker.terminate()));
  }

  /** Cuts weights that come as a whole. */
  async #cut({ bytes, copyTo }: Extract<WeightsIn, { kind: "whole" }>): Promise<readonly Uint8Array<ArrayBuffer>[]> {
    const whole = new Uint8Array(bytes);
    await copyTo(whole);
    return this.#sections.map((section) => {
      const own = new Uint8Array(section.bytes);
      for (const part of section.parts) own.set(whole.subarray(part.from, part.from + part.bytes), part.offset);
      return own;
    });
  }

  #start(rank: number): RankThread {
    const workerData: RankStart = { model: this.model, rank, shared: this.#shared };
    const worker = new Worker(threadFile(), { workerData, execArgv: [], name: `rank ${rank}` });
    const thread: RankThread = { worker, pending: [] };
    let cause: unknown = "it was ended";
    worker.unref();
    worker.on("message", () => {
      thread.pending.shift()?.resolve();
      if (thread.pending.length === 0) worker.unref();
    });
    worker.once("error", (error) => {
      cause = error;
    });
    worker.once("exit", () => {
      this.#end(errors.EngineRankLost({ reason: `rank ${rank}: ${messageOf(cause)}` }, cause));
    });
    return thread;
  }

  #tell({ worker, pending }: RankThread, order: RankOrder): Promise<void> {
    return new Promise((resolve, reject) => {
      if (this.#failure) return reject(this.#failure);
      pending.push({ resolve, reject });
      worker.ref(); // whoever waits for an answer keeps the process alive
      worker.postMessage(order, order.kind === "load" ? [order.section.buffer] : []);
    });
  }

  /** The first reason is the one that everybody hears. */
  #end(failure: Error): void {
    this.#failure ??= failure;
    for (const watch of this.#watchers.splice(0)) watch(this.#failure);
    breakExchange(this.#shared);
    for (const { worker, pending } of this.#threads) {
      for (const { reject } of pending.splice(0)) reject(this.#failure);
      void worker.terminate();
    }
  }
}

/** The compiled thread: beside this file when compiled, in `dist` when this file runs from source. */
function threadFile(): URL {
  const fromSource = import.meta.url.endsWith(".ts");
  const file = new URL(fromSource ? "../../../dist/embedded/ranks/thread.js" : "./thread.js", import.meta.url);
  if (!existsSync(file))
    throw errors.EngineRankLost({ reason: `${fileURLToPath(file)} is missing; run npm run build` });
  return file;
}

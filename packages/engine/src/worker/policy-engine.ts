/** A trainer that is a worker. What it holds is held here, too: bytes that were read are those that are voted on, whatever becomes of the worker. */

import type { SectionBytes } from "@muster/base";
import type { z } from "@muster/protocol";
import type {
  AccumulateOptions,
  PolicyEngine,
  PolicyInfo,
  ShardStats,
  StageOptions,
  StateSource,
  StateViews,
  TrainSample,
} from "../engine.ts";
import { errors } from "../errors.ts";
import type { GradientMemory } from "../gradient-memory.ts";
import { piecesWithPlaces, roomFor, sectionPieceMax } from "../section-bytes.ts";
import { stagedSchema, statsSchema } from "./messages.ts";
import type { OpenWorker } from "./open-link.ts";
import { referredLogprobs } from "./reference-policy.ts";
import { columnsOf } from "./samples.ts";

/** Sequences of a request for what the reference policy says of them. */
const sequencesMax = 32;

const sectionNames = ["weights", "optimizer"] as const;

type Mirror = Readonly<Record<(typeof sectionNames)[number], SectionBytes>>;

/** A policy engine over an open worker, which it ends when it is closed. */
export class WorkerPolicyEngine implements PolicyEngine {
  readonly #worker: OpenWorker;
  readonly #info: PolicyInfo;
  #live: Mirror;
  #spare: Mirror;
  #hasLive = false;
  #hasReference = false;
  /** `same`: the candidate has the bytes of the live state. */
  #candidate: "none" | "same" | "staged" = "none";
  #running: string | null = null;
  /** Of the last of the calls that nobody waits for. */
  #told: Promise<unknown> = Promise.resolve();

  /** @param pieceMax - Most bytes of a piece of a section that is held here; for tests. */
  constructor(worker: OpenWorker, pieceMax: number = sectionPieceMax) {
    const { tensors, weightsBytes, optimizerBytes, gradientElements, fingerprint, ...described } = worker.description;
    const { build, modelId, vocab, maxContext, logprobs } = described;
    this.#worker = worker;
    this.#info = {
      ...{ kind: "worker", build, modelId, vocab, maxContext, ranks: 1, logprobs },
      ...{ tensors, weightsBytes, optimizerBytes, gradientElements, fingerprint },
    };
    const mirror = (): Mirror => ({
      weights: roomFor(weightsBytes, pieceMax),
      optimizer: roomFor(optimizerBytes, pieceMax),
    });
    this.#live = mirror();
    this.#spare = mirror();
  }

  info(): PolicyInfo {
    return this.#info;
  }

  async initialize(source: Parameters<PolicyEngine["initialize"]>[0]): Promise<void> {
    await this.#alone("initialize", async () => {
      this.#candidate = "none";
      await this.#call("initialize", { source });
      await this.#read(this.#spare);
      this.#swap();
    });
  }

  state(): StateViews {
    this.#mustHaveLive("state");
    return this.#live;
  }

  async restore(source: StateSource): Promise<void> {
    const { weightsBytes, optimizerBytes } = this.#info;
    checkLength("weights", source.weights.bytes, weightsBytes);
    checkLength("optimizer", source.optimizer.bytes, optimizerBytes);
    await this.#alone("restore", async () => {
      this.#candidate = "none";
      const { regions } = this.#worker;
      for (const { name, piece, from } of piecesOf(this.#spare)) await source[name].copyTo(piece, from);
      for (const { name, piece, from } of piecesOf(this.#spare)) await regions.write(name, piece, from);
      await this.#call("restore", {});
      this.#swap();
    });
  }

  begin(): void {
    this.#mustBeIdle("begin");
    this.#mustHaveLive("begin");
    this.#tell("begin");
    this.#candidate = "same";
  }

  async accumulate(samples: readonly TrainSample[], options: AccumulateOptions): Promise<ShardStats> {
    const { out, signal, ...rest } = options;
    this.#mustHaveCandidate("accumulate");
    this.#checkGradient(out);
    return await this.#alone("accumulate", async () => {
      const { regions } = this.#worker;
      const arrays = await regions.writeArrays("inputs", columnsOf(samples, this.#info));
      const params = { samples: samples.length, arrays, ...rest };
      const stats = await this.#ask("accumulate", params, statsSchema, signal);
      for (const { from, values } of out.windows()) await regions.read("gradient", bytesOf(values), 4 * from);
      return stats;
    });
  }

  /** Has the worker load the reference policy, which no step changes. @throws MUSTER_ERR_WORKER_CALL when it can not */
  async openReference(source: Parameters<PolicyEngine["initialize"]>[0]): Promise<void> {
    await this.#alone("openReference", async () => {
      await this.#call("openReference", { source });
      this.#hasReference = true;
    });
  }

  async referenceLogprobs(
    samples: readonly TrainSample[],
    { temperature, signal, onPart = () => {} }: Parameters<NonNullable<PolicyEngine["referenceLogprobs"]>>[1],
  ): Promise<readonly Float32Array[]> {
    if (!this.#hasReference)
      throw errors.EngineNotReady({ operation: "referenceLogprobs", missing: "a reference policy" });
    return await this.#alone("referenceLogprobs", async () => {
      await this.#told;
      const found: Float32Array[] = [];
      for (let from = 0; from < samples.length; from += sequencesMax) {
        const items = samples.slice(from, from + sequencesMax).map((sample) => ({ ...sample, temperature }));
        found.push(...(await referredLogprobs(this.#worker, items, signal)));
        onPart();
      }
      return found;
    });
  }

  async stage(
    gradient: GradientMemory,
    { signal, ...optimizer }: StageOptions,
  ): Promise<{ readonly gradNorm: number; readonly finite: boolean }> {
    this.#mustHaveCandidate("stage");
    this.#checkGradient(gradient);
    return await this.#alone("stage", async () => {
      const { regions } = this.#worker;
      for (const { from, values } of gradient.windows()) await regions.write("gradient", bytesOf(values), 4 * from);
      const staged = await this.#ask("stage", optimizer, stagedSchema, signal);
      const gradNorm = staged.gradNorm ?? Number.NaN;
      if (staged.finite) {
        await this.#read(this.#spare);
        this.#candidate = "staged";
      }
      return { gradNorm, finite: staged.finite };
    });
  }

  candidate(): StateViews {
    this.#mustHaveCandidate("candidate");
    return this.#candidate === "staged" ? this.#spare : this.#live;
  }

  promote(): void {
    this.#mustBeIdle("promote");
    this.#mustHaveCandidate("promote");
    this.#tell("promote");
    if (this.#candidate === "staged") this.#swap();
    this.#candidate = "none";
  }

  discard(): void {
    this.#mustBeIdle("discard");
    if (this.#candidate !== "none") this.#tell("discard");
    this.#candidate = "none";
  }

  onLost(run: (cause: Error) => void): void {
    void this.#worker.link.lost.then(run);
  }

  async close(): Promise<void> {
    this.#hasLive = false;
    this.#candidate = "none";
    await this.#worker.link.close();
    await this.#worker.regions.close();
  }

  #swap(): void {
    [this.#live, this.#spare] = [this.#spare, this.#live];
    this.#hasLive = true;
  }

  async #read(mirror: Mirror): Promise<void> {
    const { regions } = this.#worker;
    for (const { name, piece, from } of piecesOf(mirror)) await regions.read(name, piece, from);
  }

  async #call(method: string, params: object): Promise<void> {
    await this.#told;
    await this.#worker.link.call(method, params);
  }

  async #ask<T>(method: string, params: object, schema: z.ZodType<T>, signal?: AbortSignal): Promise<T> {
    await this.#told;
    return await this.#worker.link.ask(method, params, schema, signal ? { signal } : {});
  }

  /** Says what the worker must do and can not refuse: one that fails in it has another state than is known here. */
  #tell(method: string): void {
    const { link } = this.#worker;
    this.#told = this.#told
      .then(() => link.call(method, {}))
      .catch((error: unknown) => {
        throw link.condemn(
          `${method} must not fail, and did: ${error instanceof Error ? error.message : String(error)}`,
        );
      });
    this.#told.catch(() => {}); // the next call throws it
  }

  async #alone<T>(operation: string, run: () => Promise<T>): Promise<T> {
    this.#mustBeIdle(operation);
    this.#running = operation;
    try {
      return await run();
    } finally {
      this.#running = null;
    }
  }

  #mustBeIdle(operation: string): void {
    if (this.#running) throw errors.EngineBusy({ operation, running: this.#running });
  }

  #mustHaveLive(operation: string): void {
    if (!this.#hasLive) throw errors.EngineNotReady({ operation, missing: "initialize() or restore()" });
  }

  #mustHaveCandidate(operation: string): void {
    if (this.#candidate === "none") throw errors.EngineNotReady({ operation, missing: "begin()" });
  }

  #checkGradient({ elements }: GradientMemory): void {
    const expected = this.#info.gradientElements;
    if (elements === expected) return;
    throw errors.EngineOptionInvalid({ field: "gradient length", value: elements, rule: String(expected) });
  }
}

const piecesOf = (mirror: Mirror) =>
  sectionNames.flatMap((name) => piecesWithPlaces(mirror[name]).map((one) => ({ name, ...one })));

const bytesOf = ({ buffer, byteOffset, byteLength }: Float32Array): Uint8Array =>
  new Uint8Array(buffer, byteOffset, byteLength);

function checkLength(section: string, bytes: number, expectedBytes: number): void {
  if (bytes !== expectedBytes) throw errors.EngineStateLength({ section, bytes, expectedBytes });
}

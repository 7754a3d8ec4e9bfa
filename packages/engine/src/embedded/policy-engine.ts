/** The embedded trainer: live state and candidate side by side in the core's memory, so that promoting is a swap. */
import type {
  AccumulateOptions,
  OptimizerOptions,
  PolicyEngine,
  PolicyInfo,
  ShardStats,
  StageOptions,
  StateSections,
  StateSource,
  TrainSample,
} from "../engine.ts";
import { errors } from "../errors.ts";
import { type GradientMemory, readGradient, writeGradient } from "../gradient-memory.ts";
import { loadWeightsFor } from "../hf-folder.ts";
import { type Address, type Core, embeddedInfo, openCore, reserving } from "./core.ts";
import { addGradient, logprobsUnder } from "./gradient.ts";
import { checkModel, type ModelConfig, parametersOf, tensorsOf } from "./model-config.ts";

/** What an embedded policy engine is made of. */
export interface EmbeddedPolicyOptions {
  readonly model: ModelConfig;
  /** Longest sequence, at most `model.maxContext`, which is the default. */
  readonly maxContext?: number;
  /** Sequences per pass. It decides where partial sums meet, so it must be equal on all replicas; the default is. */
  readonly rows?: number;
  /** Reserves memory for the weights of a reference policy, which {@link EmbeddedTrainer.openReference} fills. */
  readonly hasReference?: boolean;
  /** What came of a short computation on this machine. */
  readonly fingerprint?: string;
}

/** Where weights of a policy come from. */
type PolicySource = Parameters<PolicyEngine["initialize"]>[0];

/** The embedded trainer, with what its adapter asks of it besides. */
export interface EmbeddedTrainer extends PolicyEngine {
  state(): StateSections;
  candidate(): StateSections;
  /** Loads the reference policy, which no step changes. @throws MUSTER_ERR_ENGINE_NOT_READY without memory for it, what loading throws */
  openReference(source: PolicySource): Promise<void>;
}

/** Where a complete state lies: weights, then the optimizer (first moments, second moments, update counter of 64 bits). */
interface Slot {
  readonly weights: Address;
  readonly optimizer: Address;
}

/** Makes a trainer that runs inside this process. @throws MUSTER_ERR_ENGINE_MODEL_INVALID, MUSTER_ERR_ENGINE_OUT_OF_MEMORY */
export function createEmbeddedPolicyEngine(options: EmbeddedPolicyOptions): EmbeddedTrainer {
  return new EmbeddedPolicyEngine(options);
}

/** Sequences whose forward and backward pass takes about 20 ms: the longest time the event loop waits. */
function defaultRows(model: ModelConfig, maxContext: number): number {
  return Math.max(1, Math.min(64, Math.floor(1e8 / (parametersOf(model) * maxContext))));
}

class EmbeddedPolicyEngine implements EmbeddedTrainer {
  readonly #core: Core;
  readonly #info: PolicyInfo;
  readonly #rows: number;
  readonly #gradient: Address;
  readonly #reference: Address | null;
  #hasReference = false;
  #live: Slot;
  #spare: Slot;
  #hasLive = false;
  #hasCandidate = false;
  #running: string | null = null;

  constructor(options: EmbeddedPolicyOptions) {
    const model = { ...options.model, maxContext: options.maxContext ?? options.model.maxContext };
    checkModel(model);
    this.#rows = options.rows ?? defaultRows(model, model.maxContext);
    this.#core = openCore(model, { tokens: this.#rows * model.maxContext, slots: 0 });
    const count = this.#core.parameters;
    const reserve = (values: number): Address => reserving("training state", () => this.#core.call.reserve(values));
    this.#gradient = reserve(count);
    this.#live = { weights: reserve(count), optimizer: reserve(2 * count + 2) };
    this.#spare = { weights: reserve(count), optimizer: reserve(2 * count + 2) };
    this.#reference = options.hasReference ? reserve(count) : null;
    this.#info = {
      ...embeddedInfo(model),
      tensors: tensorsOf(model),
      weightsBytes: 4 * count,
      optimizerBytes: 8 * count + 8,
      gradientElements: count,
      ...(options.fingerprint === undefined ? {} : { fingerprint: options.fingerprint }),
    };
  }

  info(): PolicyInfo {
    return this.#info;
  }

  async openReference(source: PolicySource): Promise<void> {
    if (this.#reference === null) throw errors.EngineNotReady({ operation: "openReference", missing: "hasReference" });
    this.#mustBeIdle("openReference");
    const weights = source.kind === "folder" ? await loadWeightsFor(this.#core.model, source.path) : null;
    this.#mustBeIdle("openReference");
    if (weights) this.#core.bytes(this.#reference, this.#info.weightsBytes).set(weights);
    else if (source.kind === "seed") this.#core.call.initialize(this.#reference, source.seed);
    this.#hasReference = true;
  }

  async referenceLogprobs(
    samples: readonly TrainSample[],
    { temperature, signal }: Pick<AccumulateOptions, "temperature" | "signal">,
  ): Promise<readonly Float32Array[]> {
    this.#mustBeIdle("referenceLogprobs");
    const reference = this.#mustHaveReference("referenceLogprobs");
    checkPositive("temperature", temperature);
    this.#running = "referenceLogprobs";
    try {
      this.#core.call.setSharpness(1 / temperature);
      return await logprobsUnder(this.#core, reference, { samples, rows: this.#rows, signal });
    } finally {
      this.#running = null;
    }
  }

  async initialize(source: PolicySource): Promise<void> {
    this.#mustBeIdle("initialize");
    const weights = source.kind === "folder" ? await loadWeightsFor(this.#core.model, source.path) : null;
    this.#mustBeIdle("initialize");
    const live = this.#sections(this.#live);
    live.optimizer.fill(0);
    if (weights) live.weights.set(weights);
    else if (source.kind === "seed") this.#core.call.initialize(this.#live.weights, source.seed);
    this.#hasLive = true;
    this.#hasCandidate = false;
  }

  state(): StateSections {
    this.#mustHaveLive("state");
    return this.#sections(this.#live);
  }

  async restore({ weights, optimizer }: StateSource): Promise<void> {
    this.#mustBeIdle("restore");
    this.#checkLength("weights", weights.bytes, this.#info.weightsBytes);
    this.#checkLength("optimizer", optimizer.bytes, this.#info.optimizerBytes);
    this.#running = "restore";
    this.#hasCandidate = false;
    const arriving = this.#sections(this.#spare);
    try {
      await weights.copyTo(arriving.weights);
      await optimizer.copyTo(arriving.optimizer);
      [this.#live, this.#spare] = [this.#spare, this.#live];
      this.#hasLive = true;
    } finally {
      this.#running = null;
    }
  }

  begin(): void {
    this.#mustBeIdle("begin");
    this.#mustHaveLive("begin");
    const from = this.#sections(this.#live);
    const to = this.#sections(this.#spare);
    to.weights.set(from.weights);
    to.optimizer.set(from.optimizer);
    this.#hasCandidate = true;
  }

  async accumulate(samples: readonly TrainSample[], options: AccumulateOptions): Promise<ShardStats> {
    this.#mustBeIdle("accumulate");
    this.#mustHaveCandidate("accumulate");
    this.#checkGradient(options.out);
    checkPositive("normalizer", options.normalizer);
    checkPositive("temperature", options.temperature);
    const hasDivergence = (options.loss?.klCoefficient ?? 0) > 0;
    const reference = hasDivergence ? this.#mustHaveReference("accumulate") : null;
    const sum = this.#core.floats(this.#gradient, this.#core.parameters);
    this.#running = "accumulate";
    try {
      sum.fill(0);
      this.#core.call.setSharpness(1 / options.temperature);
      const weights = { weights: this.#spare.weights, before: this.#live.weights, reference };
      const at = { ...weights, gradient: this.#gradient };
      const stats = await addGradient(this.#core, at, { samples, rows: this.#rows, options });
      writeGradient(options.out, sum);
      return stats;
    } finally {
      this.#running = null;
    }
  }

  async stage(gradient: GradientMemory, options: StageOptions): Promise<{ gradNorm: number; finite: boolean }> {
    this.#mustBeIdle("stage");
    this.#mustHaveCandidate("stage");
    options.signal?.throwIfAborted(); // one call of the core: nothing can end it half-way
    this.#checkGradient(gradient);
    checkOptimizer(options);
    const { call, parameters } = this.#core;
    readGradient(gradient, this.#core.floats(this.#gradient, parameters));
    const gradNorm = call.norm(this.#gradient, parameters);
    if (!Number.isFinite(gradNorm)) return { gradNorm, finite: false };
    const scale = options.clipNorm > 0 && gradNorm > options.clipNorm ? options.clipNorm / gradNorm : 1;
    const first = this.#spare.optimizer;
    const second = first + 4 * parameters;
    const updates = this.#core.integers(second + 4 * parameters, 1);
    updates[0] = updates[0]! + 1;
    const { lr, beta1, beta2, epsilon, weightDecay } = options;
    call.adamw(
      ...[this.#spare.weights, first, second, this.#gradient, parameters, updates[0]],
      ...[scale, lr, beta1, beta2, epsilon, weightDecay],
    );
    return { gradNorm, finite: true };
  }

  candidate(): StateSections {
    this.#mustHaveCandidate("candidate");
    return this.#sections(this.#spare);
  }

  promote(): void {
    this.#mustBeIdle("promote");
    this.#mustHaveCandidate("promote");
    [this.#live, this.#spare] = [this.#spare, this.#live];
    this.#hasCandidate = false;
  }

  discard(): void {
    this.#mustBeIdle("discard");
    this.#hasCandidate = false;
  }

  async close(): Promise<void> {
    this.#hasLive = false;
    this.#hasCandidate = false;
  }

  #sections(slot: Slot): StateSections {
    return {
      weights: this.#core.bytes(slot.weights, this.#info.weightsBytes),
      optimizer: this.#core.bytes(slot.optimizer, this.#info.optimizerBytes),
    };
  }

  #mustBeIdle(operation: string): void {
    if (this.#running) throw errors.EngineBusy({ operation, running: this.#running });
  }

  #mustHaveLive(operation: string): void {
    if (!this.#hasLive) throw errors.EngineNotReady({ operation, missing: "initialize() or restore()" });
  }

  #mustHaveCandidate(operation: string): void {
    if (!this.#hasCandidate) throw errors.EngineNotReady({ operation, missing: "begin()" });
  }

  #mustHaveReference(operation: string): Address {
    if (this.#reference === null || !this.#hasReference)
      throw errors.EngineNotReady({ operation, missing: "a reference policy" });
    return this.#reference;
  }

  #checkLength(section: string, bytes: number, expectedBytes: number): void {
    if (bytes !== expectedBytes) throw errors.EngineStateLength({ section, bytes, expectedBytes });
  }

  #checkGradient({ elements }: GradientMemory): void {
    const expected = this.#core.parameters;
    if (elements === expected) return;
    throw errors.EngineOptionInvalid({ field: "gradient length", value: elements, rule: String(expected) });
  }
}

function checkPositive(field: string, value: number): void {
  if (!(value > 0)) throw errors.EngineOptionInvalid({ field, value, rule: "positive" });
}

function checkOptimizer(options: OptimizerOptions): void {
  const require = (field: keyof OptimizerOptions, holds: boolean, rule: string): void => {
    if (!holds) throw errors.EngineOptionInvalid({ field, value: options[field], rule });
  };
  for (const field of ["lr", "epsilon", "weightDecay", "clipNorm"] as const) {
    require(field, Number.isFinite(options[field]) && options[field] >= 0, "finite and at least 0");
  }
  for (const field of ["beta1", "beta2"] as const) {
    require(field, options[field] >= 0 && options[field] < 1, "at least 0 and below 1");
  }
}

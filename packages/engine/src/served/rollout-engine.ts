/** A sampler whose responses come from inference servers of another program, over HTTP. */
import { randomBytes } from "node:crypto";
import { messageOf } from "@muster/base";
import type { EngineInfo, Generated, GenerateRequest, RolloutEngine, WeightUpdate } from "../engine.ts";
import { errors } from "../errors.ts";
import { Gate } from "../gate.ts";
import { checkServedRequest } from "./check-drawn.ts";
import { Checksums } from "./checksums.ts";
import type { WeightPlace } from "./dialect.ts";
import { drawAll } from "./draw-all.ts";
import type { ServedOptions } from "./options.ts";
import { Pool } from "./pool.ts";
import { Server, sleep } from "./server.ts";
import { tagOf } from "./tag.ts";
import type { WeightFiles } from "./weight-files.ts";

/** What an engine is made of. */
export interface ServedEngineParts {
  readonly options: ServedOptions;
  readonly info: EngineInfo;
  /** Size of the weights section. */
  readonly weightsBytes: number;
  /** Servers that run already; `null` for one that the options' command starts. */
  readonly urls: readonly string[] | null;
  readonly key: string;
  readonly files: WeightFiles;
  /** Gives back what only one sampler may have. */
  readonly release: () => Promise<void>;
}

/** A rollout engine over servers. */
export class ServedRolloutEngine implements RolloutEngine {
  readonly #parts: ServedEngineParts;
  readonly #pool: Pool;
  readonly #life = randomBytes(4).toString("hex");
  readonly #running = new Map<AbortController, ReadonlyMap<string, AbortController>>();
  readonly #ended = new Set<Promise<unknown>>();
  readonly #paused = new Gate();
  readonly #updating = new Gate();
  #version: number | null = null;
  #turn: Promise<unknown> = Promise.resolve();
  #calls = 0;
  #isClosed = false;
  #lost: Error | null = null;
  #onLost: ((cause: Error) => void) | null = null;

  constructor(parts: ServedEngineParts) {
    this.#parts = parts;
    const { options, key, urls } = parts;
    const tools = {
      ...{ options, key, checksums: new Checksums() },
      changed: () => this.#pool.changed(),
      lost: (cause: Error) => this.#lose(cause),
      // The sampler's log has it, as what its servers write.
      note: (text: string) => void process.stderr.write(`${text}\n`),
    };
    const servers = (urls ?? [null]).map((url) => new Server(url, tools));
    this.#pool = new Pool(servers, options);
  }

  info(): EngineInfo {
    return this.#parts.info;
  }

  async health({ deep, signal }: Parameters<RolloutEngine["health"]>[0]): ReturnType<RolloutEngine["health"]> {
    if (this.#isClosed) return { ok: false, state: "stopping" };
    if (this.#version === null) return { ok: false, state: "starting", detail: "no server has weights yet" };
    const { servers } = this.#pool;
    const checks = servers.map(async (server) => {
      if (!(await server.check(signal))) throw this.#pool.none();
      if (deep) await server.probe(signal);
    });
    const failures = (await Promise.allSettled(checks)).flatMap((each, at) => {
      if (each.status === "fulfilled") return [];
      // A check that was called off says nothing; one that was answered badly takes the server out until it serves again.
      if (deep && !signal.aborted && servers[at]?.isReady) servers[at].lose(each.reason);
      return [messageOf(each.reason)];
    });
    const [detail = ""] = failures;
    return failures.length < servers.length ? { ok: true, state: "up" } : { ok: false, state: "unhealthy", detail };
  }

  async generate(
    requests: readonly GenerateRequest[],
    signal: AbortSignal,
  ): Promise<readonly (readonly Generated[])[]> {
    this.#mustBeOpen("generate");
    for (const request of requests) checkServedRequest(this.#parts.info, request);
    signal.throwIfAborted();
    do {
      await this.#paused.passed(signal);
      await this.#updating.passed(signal);
    } while (this.#paused.isShut || this.#updating.isShut);
    this.#mustBeOpen("generate");
    if (this.#version === null) throw errors.EngineNotReady({ operation: "generate", missing: "updateWeights()" });
    return await this.#tracked(this.#draw(requests, this.#version, signal));
  }

  async updateWeights(update: WeightUpdate): Promise<void> {
    this.#mustBeOpen("updateWeights");
    const { weightsBytes, options } = this.#parts;
    if (update.via === "shards" || update.via === "ranks")
      throw errors.EngineOptionInvalid({ field: "via", value: update.via, rule: "inline or disk for a server" });
    if (update.via === "disk" && options.format !== "hf")
      throw errors.EngineOptionInvalid({ field: "via", value: update.via, rule: "inline where weights are GGUF" });
    if (update.via === "inline" && update.bytes !== weightsBytes)
      throw errors.EngineStateLength({ section: "weights", bytes: update.bytes, expectedBytes: weightsBytes });
    const result = this.#turn.then(() => this.#update(update));
    this.#turn = result.catch(() => {}); // the caller hears of it
    await result;
  }

  weightVersion(): number | null {
    return this.#version;
  }

  async abort(requestIds: readonly string[] | "all"): Promise<void> {
    for (const byId of this.#running.values())
      for (const [id, controller] of byId) if (requestIds === "all" || requestIds.includes(id)) controller.abort();
  }

  async pause(mode: "abort" | "drain" | "keep"): Promise<void> {
    this.#paused.shut();
    if (mode === "abort") await this.abort("all");
    if (mode !== "keep") await this.#drained();
  }

  async resume(): Promise<void> {
    this.#paused.open();
  }

  onLost(run: (cause: Error) => void): void {
    this.#onLost = run;
    if (this.#lost) run(this.#lost);
  }

  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    for (const controller of this.#running.keys()) controller.abort(errors.EngineClosed({ operation: "generate" }));
    this.#paused.open();
    await Promise.all(this.#pool.servers.map((server) => server.close()));
    await this.#drained();
    await this.#turn;
    await this.#parts.files.close();
    await this.#parts.release();
  }

  async #draw(requests: readonly GenerateRequest[], version: number, signal: AbortSignal) {
    const ended = new AbortController();
    const byId = new Map(requests.map(({ requestId }) => [requestId, new AbortController()]));
    this.#running.set(ended, byId);
    try {
      return await drawAll(requests, {
        ...{ pool: this.#pool, options: this.#parts.options, info: this.#parts.info, version },
        tag: tagOf(this.#life, version),
        id: `${this.#life}.${this.#calls++}`,
        signal: AbortSignal.any([signal, ended.signal]),
        abortOf: (requestId) => (byId.get(requestId) as AbortController).signal,
      });
    } finally {
      this.#running.delete(ended);
    }
  }

  /** Nothing is drawn while weights change, so every response is of one version. They are written while the old ones still serve. */
  async #update(update: Exclude<WeightUpdate, { via: "shards" | "ranks" }>): Promise<void> {
    const { version } = update;
    if (version === this.#version || this.#isClosed) return;
    // With no weights there is nothing to draw with meanwhile: who asks waits.
    if (this.#version === null) this.#updating.shut();
    try {
      const tag = tagOf(this.#life, version);
      const path = update.via === "disk" ? update.path : await this.#parts.files.write(tag, update);
      if (this.#isClosed) return;
      this.#updating.shut();
      await this.#drained();
      this.#version = null;
      await this.#bring({ path, tag, sample: this.#parts.files.sampleOf(path) });
      this.#version = version;
    } finally {
      this.#updating.open();
    }
  }

  /**
   * Brings servers to weights. Those without them do not serve; as long as one has them, the others are brought there meanwhile: once one is there, they
   * have as long again, and nobody waits longer for one that is dead.
   */
  async #bring(place: WeightPlace): Promise<void> {
    const fromMs = performance.now();
    const bringing = this.#pool.servers.map((server) => server.bring(place));
    const all = Promise.allSettled(bringing);
    if (
      !(await Promise.any(bringing).then(
        () => true,
        () => false,
      ))
    )
      await bringing[0];
    const ended = new AbortController();
    const lateMs = performance.now() - fromMs + 3 * this.#parts.options.times.askMs;
    await Promise.race([all.then(() => ended.abort()), sleep(lateMs, ended.signal)]);
  }

  async #tracked<T>(run: Promise<T>): Promise<T> {
    this.#ended.add(run);
    try {
      return await run;
    } finally {
      this.#ended.delete(run);
    }
  }

  async #drained(): Promise<void> {
    await Promise.allSettled(this.#ended);
  }

  #lose(cause: Error): void {
    this.#lost = cause;
    if (!this.#isClosed) this.#onLost?.(cause);
  }

  #mustBeOpen(operation: string): void {
    if (this.#isClosed) throw errors.EngineClosed({ operation });
  }
}

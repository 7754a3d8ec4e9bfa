/** The handlers of a checkpoint actor: they pull a version like any receiver and write it, or keep it in memory. */
import { basename } from "node:path";
import { hasCode, messageOf } from "@muster/base";
import type { CheckpointContent, CheckpointStore } from "@muster/checkpoint";
import { type CheckpointEffect, type CheckpointEvent, checkpointLogic, type TimerEffect } from "@muster/machines";
import type { Body } from "@muster/protocol";
import type { HostTools } from "@muster/runtime";
import { errors } from "../errors.ts";
import { meteredPorts } from "../metered-ports.ts";
import type { Ports } from "../ports.ts";
import {
  type Admission,
  defineRole,
  mustEnd,
  type Role,
  type RoleHandlers,
  settle,
  type Work,
  type WorkTools,
} from "../replica/work.ts";
import { collectShards } from "../shards/collect-shards.ts";
import { Tables } from "../tables.ts";
import { mapParts } from "../weights.ts";
import { cursorOf } from "./cursor.ts";
import { SharedVersion } from "./shared-version.ts";
import { type KeptSections, keptWhere, StateMemory } from "./state-memory.ts";

type Effect = CheckpointEffect | TimerEffect<CheckpointEvent>;
type Tools = HostTools<CheckpointEvent>;
type EffectOf<T extends CheckpointEffect["type"]> = Extract<CheckpointEffect, { readonly type: T }>;

/** Age from which what is left of a checkpoint is taken for that of a writer that died; twice the longest write where that is longer. */
const graceMinMs = 3_600_000;

/**
 * Versions that stay while the controller has named none of those that are here: it may still come to name any that was written, also by who died, once
 * it hears of it. It evicts who leaves three orders unanswered, so it hears of more than these from nobody.
 */
const unnamedMax = 8;

/** Longest cause in a report. */
const causeMax = 2_000;

const phases = ["loading", "idle", "writing"] as const;

/** The role of checkpoint actors on given ports. */
export const checkpointRoleOn = (ports: Ports): Role =>
  defineRole({
    role: "checkpoint",
    build: "",
    phases,
    logic: checkpointLogic,
    input: { checkpointMs: 60_000, pullMs: 30_000 },
    create: (tools: WorkTools): Work<Effect, CheckpointEvent> => new CheckpointWork(tools, ports),
  });

type SaveBody = Body<"checkpoint.save">;
type Shards = NonNullable<SaveBody["shards"]>;
type Said = Omit<CheckpointContent, "sections">;

interface Saving {
  readonly body: SaveBody;
  readonly content: Said;
  readonly opened: Opened;
  readonly signal: AbortSignal;
  readonly startedMs: number;
}

interface Opened extends Admission {
  readonly store: CheckpointStore;
}

class CheckpointWork implements Work<Effect, CheckpointEvent> {
  readonly #tools: WorkTools;
  readonly #ports: Ports;
  readonly #memory: StateMemory;
  readonly #tables: Tables;
  readonly #opened: Promise<Opened>;
  #resolveOpened: (opened: Opened) => void = () => {};
  #rejectOpened: (error: unknown) => void = () => {};
  #abort = new AbortController();
  #writing: Promise<void> = Promise.resolve();
  /** Removal of what is not kept: it goes on when the checkpoint has been reported. */
  #clearing: Promise<void> = Promise.resolve();
  #pullAbort = new AbortController();
  #taking: Promise<void> = Promise.resolve();
  /** The version of which shards were written last, for those that others do not finish. */
  readonly #shared: SharedVersion;
  /** Ends the hold on the checkpoints that the controller would restore. */
  #unpin = (): void => {};

  constructor(tools: WorkTools, ports: Ports) {
    this.#tools = tools;
    this.#ports = meteredPorts(ports, tools.environment);
    this.#shared = new SharedVersion(tools.environment.clock);
    this.#memory = new StateMemory(tools, this.#ports);
    this.#tables = new Tables(this.#ports, tools.identity);
    this.#opened = new Promise((resolve, reject) => {
      this.#resolveOpened = resolve;
      this.#rejectOpened = reject;
    });
    this.#opened.catch(() => {});
  }

  readonly handlers: RoleHandlers<CheckpointEffect, CheckpointEvent> = {
    "checkpoint.write": (effect, tools) => {
      this.#writing = this.#write(effect, tools);
      return this.#writing;
    },
    "checkpoint.abort": ({ reason }, tools) => {
      this.#abort.abort(new Error(reason));
      this.#abort = new AbortController();
      return mustEnd("writing a checkpoint", this.#writing, tools.clock);
    },
    "weights.pull": (effect, tools) => {
      this.#taking = this.#take(effect, tools);
      return this.#taking;
    },
    "weights.abort": ({ reason }, tools) => {
      this.#pullAbort.abort(new Error(reason));
      this.#pullAbort = new AbortController();
      return mustEnd("taking a version into memory", this.#taking, tools.clock);
    },
  };

  async open(admission: Admission): Promise<void> {
    try {
      const { directory, keep } = admission.config.checkpoint;
      this.#ports.network(admission.config.network);
      const now = (): Date => new Date(this.#tools.environment.wallMs());
      const graceMs = Math.max(graceMinMs, 2 * admission.config.timing.checkpointMs);
      const store = await this.#ports.checkpointStore({
        root: directory,
        keep,
        keepUnpinned: unnamedMax,
        now,
        graceMs,
      });
      this.#sweep(store);
      this.#tools.beats.setPhase("idle");
      this.#resolveOpened({ ...admission, store });
    } catch (error) {
      this.#rejectOpened(error);
      throw error;
    }
  }

  /** Has what writers and sealers left behind that died removed, beside the work. */
  #sweep(store: CheckpointStore): void {
    store.sweep(this.#tools.identity.job).catch((error: unknown) => {
      const why = { error: messageOf(error) };
      this.#tools.environment.logger.warn(why, "what was left of unfinished checkpoints could not be removed");
    });
  }

  /** Orders come as soon as a replica is admitted; its disk may need longer. */
  #whenOpened(signal: AbortSignal): Promise<Opened> {
    return new Promise((resolve, reject) => {
      const stop = (): void => reject(signal.reason);
      if (signal.aborted) return stop();
      signal.addEventListener("abort", stop, { once: true });
      this.#opened.then(resolve, reject).finally(() => signal.removeEventListener("abort", stop));
    });
  }

  async close(): Promise<void> {
    this.#abort.abort(new Error("closing"));
    this.#pullAbort.abort(new Error("closing"));
    this.#rejectOpened(errors.ActorNotOpen({ what: "close" }));
    this.#shared.forget();
    await this.#memory.close();
    await this.#clearing;
  }

  #take({ body }: EffectOf<"weights.pull">, tools: Tools): Promise<void> {
    const signal = AbortSignal.any([this.#pullAbort.signal, tools.signal]);
    const { lineage, version } = body;
    return settle<CheckpointEvent>(
      tools,
      async () => {
        const opened = await this.#whenOpened(signal);
        return { type: "weights.pulled", ...(await this.#memory.take(body, opened, signal)) };
      },
      (error) => {
        const isTooLarge = hasCode(error, "MUSTER_ERR_MEMORY_TOO_SMALL");
        const why = { cause: messageOf(error).slice(0, causeMax), ...(isTooLarge ? { isTooLarge } : {}) };
        return { type: "weights.errored", lineage, version, ...why };
      },
    );
  }

  /** What the controller would restore stays until it knows of something newer: a report can be lost, and the newest may be damaged. */
  #pin(store: CheckpointStore, paths: readonly string[]): void {
    this.#unpin();
    const unpins = paths.map((path) => store.pin(basename(path)));
    this.#unpin = () => {
      for (const unpin of unpins) unpin();
    };
  }

  /** From memory where the version is kept, else from its holders. */
  async #sectionsOf(
    body: EffectOf<"checkpoint.write">["body"],
    opened: Opened,
    signal: AbortSignal,
  ): Promise<KeptSections> {
    const { dataKey, config } = opened;
    const kept = await this.#memory.find(body, opened, signal);
    if (kept) return kept;
    const { job, id } = this.#tools.identity;
    const { map, pull, pullShards, pieceMax } = this.#ports;
    const { clock } = this.#tools.environment;
    const puller = { job, member: id, dataKey, config };
    const cut = this.#ports.trainerCut(config);
    if (!cut)
      return keptWhere(await mapParts({ ...puller, map, keepIn: {} }, body, signal), body, config.timing.pullMs);
    const collecting = { ...puller, pull, pullShards, pieceMax, clock };
    const { sections } = await collectShards(collecting, body, { cut, signal });
    return { bytes: sections, release: () => {} };
  }

  /** What a checkpoint says besides its bytes. */
  async #contentOf(body: SaveBody, { config, dataKey }: Opened, signal: AbortSignal): Promise<Said> {
    const model = this.#ports.model(config);
    const own = await this.#tables.described(config, "policy");
    const tensors = await this.#tables.of(body, own, { dataKey, config, signal });
    const { step, lineage, version, ledger, groupsWatermark, sizes } = body;
    return {
      job: this.#tools.identity.job,
      ...{ lineage, step, version, ledger, groupsWatermark, tensors },
      term: this.#tools.term(),
      modelConfig: model.modelConfig,
      engineBuild: model.build,
      cursor: cursorOf(config, step, sizes),
    };
  }

  /** Writes the whole, or seals what is written in shards. */
  async #save({ body, content, opened, signal, startedMs }: Saving, tools: Tools): Promise<CheckpointEvent> {
    const { step, lineage, version, shards } = body;
    const { store, config } = opened;
    const kept = shards ? noBytes : await this.#sectionsOf(body, opened, signal);
    const whole = { ...content, sections: sectionsIn(body, kept) };
    const saving = shards ? store.seal(whole, shards.of, signal) : store.save(whole, signal);
    const { name, manifestDigest, bytes, cleared } = await saving.finally(() => kept.release());
    this.#clearing = cleared.then((warnings) => {
      for (const warning of warnings) tools.logger.warn({ step, warning }, "checkpoint is durable, with a warning");
    });
    if (shards) this.#shared.forget();
    const durationMs = tools.clock.now() - startedMs;
    // As the configuration names the folder, whatever links lead there: so everybody can tell that it is below.
    const path = `${config.checkpoint.directory}/${name}`;
    return { type: "checkpoint.written", step, lineage, version, path, manifestDigest, bytes, durationMs };
  }

  /** Writes shards. The bytes stay until the set is sealed: others may not finish theirs when nobody else has this version any more. */
  async #saveShards(saving: Saving, shards: Shards, tools: Tools): Promise<CheckpointEvent> {
    const { body, content, opened, signal, startedMs } = saving;
    const { step, lineage, version } = body;
    const key = JSON.stringify([lineage, version, body.sections.map(({ digest }) => digest)]);
    const kept = await this.#shared.of(key, () => this.#sectionsOf(body, opened, signal), signal);
    const whole = { ...content, sections: sectionsIn(body, kept) };
    const { store } = opened;
    const writing = store.saveShards(whole, { indices: shards.write, of: shards.of }, signal);
    const { bytes } = await writing.finally(() => this.#shared.keepWhile(() => store.isOpen(whole, shards.of)));
    const durationMs = tools.clock.now() - startedMs;
    return { type: "shards.written", step, lineage, version, shards, bytes, durationMs };
  }

  #write({ body }: EffectOf<"checkpoint.write">, tools: Tools): Promise<void> {
    const signal = AbortSignal.any([this.#abort.signal, tools.signal]);
    const { step, lineage, shards } = body;
    return settle<CheckpointEvent>(
      tools,
      async () => {
        const opened = await this.#whenOpened(signal);
        const { store } = opened;
        const startedMs = tools.clock.now();
        this.#tools.beats.setPhase("writing");
        this.#pin(store, [...(body.pinned === undefined ? [] : [body.pinned]), ...(body.fallbacks ?? [])]);
        store.spare(body.best ?? null);
        store.supersede(body.superseded ?? []);
        const content = await this.#contentOf(body, opened, signal);
        const work = { body, content, opened, signal, startedMs };
        return shards && shards.write.length > 0 ? this.#saveShards(work, shards, tools) : this.#save(work, tools);
      },
      (error) => {
        const part = shards ? { shards } : {};
        const why = { cause: messageOf(error), ...fullOf(error), ...missingOf(error) };
        return { type: "checkpoint.errored", step, lineage, ...why, ...part };
      },
    ).finally(() => this.#tools.beats.setPhase("idle"));
  }
}

/** The sections of an order with their bytes. */
function sectionsIn({ sections }: SaveBody, { bytes }: KeptSections): CheckpointContent["sections"] {
  return sections.map(({ name, digest, bytes: length }) => ({
    name,
    digest,
    bytes: bytes[name] ?? { length, copyTo: () => Promise.reject(new Error(`section ${name} is not here`)) },
  }));
}

/** Sections of which only the lengths are needed: who seals a checkpoint reads no byte of them. */
const noBytes: KeptSections = { bytes: {}, release: () => {} };

/** What a report says of a disk without room. */
function fullOf(error: unknown): Pick<Body<"checkpoint.failed">, "full"> {
  if (!hasCode(error, "MUSTER_ERR_CHECKPOINT_DISK_FULL")) return {};
  const { folder, freeBytes, neededBytes } = error.params;
  return { full: { folder: String(folder), freeBytes: Number(freeBytes), neededBytes: Number(neededBytes) } };
}

/** What a report says of shards that are not in the folder. */
function missingOf(error: unknown): Pick<Body<"checkpoint.failed">, "shardsMissing"> {
  return hasCode(error, "MUSTER_ERR_CHECKPOINT_SHARDS_MISSING") ? { shardsMissing: true } : {};
}

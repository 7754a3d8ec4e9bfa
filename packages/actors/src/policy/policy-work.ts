/** The hands of a policy replica: engine, version store and gradient mesh, driven by the effects of its machine. */
import { basename } from "node:path";
import { hasCode, MusterError, messageOf, withDeadline } from "@muster/base";
import type { GradientMesh, MeshPlace } from "@muster/collectives";
import { inlineState, type PolicyEngine, type SectionSource, sketchOf } from "@muster/engine";
import { type PolicyEffect, type PolicyEvent, policyLogic, type TimerEffect } from "@muster/machines";
import { type Body, type Section, withSettings } from "@muster/protocol";
import type { HostTools } from "@muster/runtime";
import type { Doors } from "../doors.ts";
import { errors } from "../errors.ts";
import { meteredDoors } from "../metered-doors.ts";
import { PartStores } from "../part-stores.ts";
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
import { type OwnTable, ownTable, Tables } from "../tables.ts";
import { deltaOf, mapParts } from "../weights.ts";
import { computeStep } from "./compute-step.ts";
import { damageOf } from "./damage.ts";
import { Publications } from "./publications.ts";
import { readBatch } from "./read-batch.ts";

type Effect = PolicyEffect | TimerEffect<PolicyEvent>;
type Tools = HostTools<PolicyEvent>;
type EffectOf<T extends PolicyEffect["type"]> = Extract<PolicyEffect, { readonly type: T }>;

const phases = ["loading", "idle", "initializing", "pulling", "meshing", "computing", "promoting"] as const;

/** Before the configuration is known nothing waits by these. */
const unknownTiming = { initializeMs: 300_000, pullMs: 30_000, meshMs: 10_000, stepMs: 60_000, commandMs: 5_000 };

/** The role of policy replicas on given doors. */
export const policyRoleOn = (doors: Doors): Role =>
  defineRole({
    role: "policy",
    build: doors.engineBuild,
    phases,
    logic: policyLogic,
    input: { timing: unknownTiming },
    create: (tools: WorkTools): Work<Effect, PolicyEvent> => new PolicyWork(tools, doors),
  });

interface Opened extends Admission {
  readonly engine: PolicyEngine;
  readonly stores: PartStores;
  readonly table: OwnTable;
}

class PolicyWork implements Work<Effect, PolicyEvent> {
  readonly #tools: WorkTools;
  readonly #doors: Doors;
  readonly #publications: Publications;
  readonly #tables: Tables;
  readonly #opened: Promise<Opened>;
  #resolveOpened: (opened: Opened) => void = () => {};
  #rejectOpened: (error: unknown) => void = () => {};
  #mesh: GradientMesh | null = null;
  #members: Body<"mesh.build">["members"] = [];
  #ops = 0;
  #pullAbort = new AbortController();
  readonly #closing = new AbortController();
  /** Aborts what runs on the current mesh; a new one for each epoch. */
  #abort = new AbortController();
  /** The work on the engine that runs or is queued: one thing at a time. */
  #engineWork: Promise<unknown> = Promise.resolve();

  constructor(tools: WorkTools, doors: Doors) {
    this.#tools = tools;
    this.#doors = meteredDoors(doors, tools.environment);
    this.#publications = new Publications(tools.environment);
    this.#tables = new Tables(this.#doors, tools.identity);
    this.#opened = new Promise((resolve, reject) => {
      this.#resolveOpened = resolve;
      this.#rejectOpened = reject;
    });
    this.#opened.catch(() => {});
  }

  readonly handlers: RoleHandlers<PolicyEffect, PolicyEvent> = {
    "weights.initialize": (effect, tools) => this.#initialize(effect, tools),
    "weights.pull": (effect, tools) => this.#pull(effect, tools),
    "weights.publish": (effect, tools) => this.#publishLater(effect, tools),
    "weights.abort": ({ reason }) => {
      this.#pullAbort.abort(new Error(reason));
      this.#pullAbort = new AbortController();
    },
    "mesh.open": (effect, tools) => this.#openMesh(effect, tools),
    "mesh.abort": ({ reason }) => this.#abortMesh(reason),
    "step.compute": (effect, tools) => this.#compute(effect, tools),
    "step.promote": (effect, tools) => this.#promote(effect, tools),
    "step.discard": () => this.#inTurn(async ({ engine }) => engine.discard()).then(() => {}),
  };

  async open(admission: Admission): Promise<void> {
    try {
      const { config, dataKey } = admission;
      const { job, id } = this.#tools.identity;
      this.#doors.network(config.network);
      const engine = await this.#doors.policyEngine(config);
      engine.onLost?.(this.#tools.fail);
      const { weightsBytes, optimizerBytes, tensors } = engine.info();
      const table = await ownTable(this.#doors, tensors, this.#closing.signal);
      const sizes = [
        { name: "weights", bytes: weightsBytes },
        { name: "optimizer", bytes: optimizerBytes },
      ] as const;
      const stores = await PartStores.open(this.#doors, sizes, {
        key: dataKey,
        job,
        member: id,
        socketDir: config.data.socketDirectory,
        tcpHost: config.data.tcpHost,
        tableBytes: table.text.length,
        slots: config.data.slots,
        delta: deltaOf(config),
      });
      this.#tools.beats.setPhase("idle");
      this.#resolveOpened({ ...admission, engine, stores, table });
    } catch (error) {
      this.#rejectOpened(error);
      throw error;
    }
  }

  async close(): Promise<void> {
    this.#abortMesh("closing");
    this.#closing.abort(new Error("closing"));
    this.#pullAbort.abort(new Error("closing"));
    this.#rejectOpened(errors.ActorNotOpen({ what: "close" }));
    await this.#engineWork.catch(() => {});
    this.#mesh?.close();
    const opened = await this.#opened.catch(() => null);
    await opened?.stores.close();
    await opened?.engine.close();
  }

  #initialize({ body }: EffectOf<"weights.initialize">, tools: Tools): Promise<void> {
    const { lineage, version, source } = body;
    const signal = AbortSignal.any([this.#pullAbort.signal, tools.signal]);
    return settle<PolicyEvent>(
      tools,
      () =>
        this.#inPhase("initializing", async (opened) => {
          const { engine, config, table } = opened;
          if (source.kind === "checkpoint") {
            const path = checkpointPathOf(source.path, config);
            // A disk that does not answer holds up nobody else: another replica is asked.
            const patience = {
              what: `reading ${path}`,
              timeoutMs: config.timing.checkpointMs,
              clock: this.#tools.environment.clock,
            };
            const checkpoint = await withDeadline((late) => this.#doors.loadCheckpoint(path, late), patience);
            const { name, manifestDigest } = checkpoint.info;
            if (!(source.manifestDigests?.includes(manifestDigest) ?? true)) throw errors.CheckpointReplaced({ name });
            const section = (name: string): Uint8Array =>
              checkpoint.sections.find((part) => part.name === name)?.bytes ?? new Uint8Array();
            await engine.restore(inlineState({ weights: section("weights"), optimizer: section("optimizer") }));
          } else if (source.kind === "memory") await this.#restore(source, opened, signal);
          else await engine.initialize(source);
          const held = await this.#publications.first(opened, { lineage, version });
          const meta = { lineage, rows: table.rows, bytes: engine.info().weightsBytes, digest: table.digest };
          return { type: "weights.initialized", ...held, meta };
        }),
      (error) => ({ type: "weights.errored", lineage, version, cause: messageOf(error), ...damageOf(error, source) }),
    );
  }

  #pull({ body }: EffectOf<"weights.pull">, tools: Tools): Promise<void> {
    const { lineage, version } = body;
    const signal = AbortSignal.any([this.#pullAbort.signal, tools.signal]);
    return settle<PolicyEvent>(
      tools,
      () =>
        this.#inPhase("pulling", async (opened) => {
          await this.#restore(body, opened, signal);
          return { type: "weights.pulled", ...(await this.#publications.pulled(opened, body)) };
        }),
      (error) => ({ type: "weights.errored", lineage, version, cause: messageOf(error) }),
    );
  }

  /** Pulls a version into the engine. */
  async #restore(
    wanted: Body<"weights.pull">,
    { engine, table, dataKey, config }: Opened,
    signal: AbortSignal,
  ): Promise<void> {
    const { job, id } = this.#tools.identity;
    const { map } = this.#doors;
    signal.throwIfAborted();
    await this.#tables.check(wanted, table, { dataKey, config, signal });
    const mapped = await mapParts({ map, keepIn: {}, job, member: id, dataKey, config }, wanted, signal);
    try {
      const patience = { deadlineMs: config.timing.pullMs, signal };
      const source = (name: string): SectionSource => ({
        bytes: wanted.sections.find((section) => section.name === name)?.bytes ?? 0,
        copyTo: (into) => mapped.copyTo(name, into, patience),
      });
      await engine.restore({ weights: source("weights"), optimizer: source("optimizer") });
    } finally {
      mapped.release();
    }
  }

  #openMesh({ body }: EffectOf<"mesh.open">, tools: Tools): Promise<void> {
    const { epoch, members } = body;
    this.#abortMesh("a newer epoch");
    this.#abort = new AbortController();
    const { signal } = this.#abort;
    return settle<PolicyEvent>(
      tools,
      () =>
        this.#inPhase("meshing", async ({ engine, stores, dataKey, config }) => {
          signal.throwIfAborted();
          this.#mesh?.close();
          this.#mesh = null;
          this.#members = members;
          this.#ops = 0;
          const { job, id, incarnation } = this.#tools.identity;
          this.#mesh = await this.#doors.gradientMesh({
            key: dataKey,
            job,
            epoch,
            rank: members.findIndex((member) => member.id === id && member.incarnation === incarnation),
            members: members.map((member) => member.id),
            ...placesOf(members),
            store: stores.of("serving"),
            socketDir: config.data.socketDirectory,
            shards: config.batch.microShards,
            shardElements: engine.info().gradientElements,
            deadlineMs: config.timing.meshMs,
            signal: AbortSignal.any([signal, tools.signal]),
          });
          const { build, fingerprint } = engine.info();
          return { type: "mesh.joined", epoch, ...(fingerprint ? { engine: { build, fingerprint } } : {}) };
        }),
      (error) => ({ type: "mesh.errored", epoch, cause: messageOf(error), missing: missingOf(error, members) }),
    );
  }

  #abortMesh(reason: string): void {
    this.#abort.abort(new Error(reason));
    this.#mesh?.abort(reason);
  }

  #compute({ body }: EffectOf<"step.compute">, tools: Tools): Promise<void> {
    const { step, attempt, epoch } = body;
    const signal = AbortSignal.any([this.#abort.signal, tools.signal]);
    const { transport, beats } = this.#tools;
    return settle<PolicyEvent>(
      tools,
      () =>
        this.#inPhase("computing", async ({ engine, config, table }) => {
          const mesh = this.#mesh;
          if (mesh?.epoch !== epoch) throw errors.ActorNotOpen({ what: `epoch ${epoch}` });
          const { groups, unreadable, cause } = await readBatch(transport, body, config);
          signal.throwIfAborted();
          if (unreadable.length > 0)
            return { type: "step.errored", step, attempt, epoch, cause, missing: [], unreadable: [...unreadable] };
          const { finite, stats } = await computeStep({
            engine,
            mesh,
            config: withSettings(config, body.rate ?? {}),
            step,
            groups,
            nextOp: () => ++this.#ops,
            clock: tools.clock,
            signal,
            onShard: () => beats.progress(),
          });
          const { weights, optimizer } = engine.candidate();
          const [ofWeights = "", ofOptimizer = ""] = await this.#doors.digests([weights, optimizer], signal);
          const sections: Section[] = [
            { name: "weights", bytes: weights.length, digest: ofWeights, table: table.named },
            { name: "optimizer", bytes: optimizer.length, digest: ofOptimizer },
          ];
          const mayDrift = config.agreement !== undefined && config.agreement !== "state";
          const sketch = mayDrift ? { sketch: sketchOf(weights, engine.info().tensors) } : {};
          return { type: "step.computed", step, attempt, epoch, finite, sections, stats, ...sketch };
        }),
      (error) => ({
        type: "step.errored",
        step,
        attempt,
        epoch,
        cause: messageOf(error),
        missing: missingOf(error, this.#members),
      }),
    );
  }

  /** A candidate that is not what was committed must never serve: that is a broken invariant, and the process ends. */
  #promote({ body }: EffectOf<"step.promote">, tools: Tools): Promise<void> {
    return this.#inPhase("promoting", async (opened) => {
      opened.engine.promote();
      const held = await this.#publications.promoted(opened, body);
      tools.post({ type: "step.promoted", ...held });
    });
  }

  /** The engine may have another version when it is its turn. */
  #publishLater({ body }: EffectOf<"weights.publish">, tools: Tools): Promise<void> {
    const { lineage, version } = body;
    return this.#inTurn(async (opened) => {
      try {
        tools.post({ type: "weights.published", ...(await this.#publications.later(opened, body)) });
      } catch (error) {
        if (hasCode(error, "MUSTER_ERR_PROMOTED_DIFFERS") || tools.signal.aborted) throw error;
        tools.post({ type: "weights.unpublished", lineage, version, cause: messageOf(error) });
      }
    });
  }

  #inPhase<T>(phase: (typeof phases)[number], work: (opened: Opened) => Promise<T>): Promise<T> {
    return this.#inTurn(async (opened) => {
      this.#tools.beats.setPhase(phase);
      return await work(opened).finally(() => this.#tools.beats.setPhase("idle"));
    });
  }

  /** Runs work on the engine after whatever runs on it now. The machine asks for more only when that is over or aborted. */
  #inTurn<T>(work: (opened: Opened) => Promise<T>): Promise<T> {
    const { clock } = this.#tools.environment;
    const result = mustEnd("the engine's last work", this.#engineWork, clock).then(async () =>
      work(await this.#opened),
    );
    this.#engineWork = result.catch(() => {});
    return result;
  }
}

/** Where the members are, when that was said: they are on several hosts. */
function placesOf(members: Body<"mesh.build">["members"]): { readonly places?: readonly MeshPlace[] } {
  const places = members.flatMap(({ place }) => place ?? []);
  return places.length > 0 ? { places } : {};
}

/** Only the job's own folder is read, whatever folder is named, and what the configuration begins with. */
function checkpointPathOf(path: string, { weights, checkpoint }: Opened["config"]): string {
  const isBeginning = weights.kind === "checkpoint" && weights.path === path;
  return isBeginning ? path : `${checkpoint.directory}/${basename(path)}`;
}

/** Ids of the members that a collective missed, where the error names their ranks. */
function missingOf(error: unknown, members: Body<"mesh.build">["members"]): string[] {
  const ranks = error instanceof MusterError ? String(error.params.ranks ?? "") : "";
  return ranks.split(",").flatMap((rank) => members[Number.parseInt(rank, 10)]?.id ?? []);
}

/** The handlers of a policy replica: engine, version store and gradient mesh, driven by the effects of its machine. */
import { basename } from "node:path";
import { hasCode, MusterError, messageOf } from "@muster/base";
import type { GradientMesh } from "@muster/collectives";
import type { Task } from "@muster/data";
import type { PolicyEngine, RankCut } from "@muster/engine";
import { type PolicyEffect, type PolicyEvent, policyLogic, type TimerEffect } from "@muster/machines";
import { type Body, withSettings } from "@muster/protocol";
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
import { RankTrainer } from "../shards/rank-trainer.ts";
import { type OwnTable, ownTable, Tables } from "../tables.ts";
import { computeStep } from "./compute-step.ts";
import { damageOf } from "./damage.ts";
import { heldOutRowsOf } from "./held-out-loss.ts";
import { Publications } from "./publications.ts";
import { readBatch } from "./read-batch.ts";
import { ShardedState } from "./sharded-state.ts";
import { type StateTools, type TrainerState, WholeState } from "./trainer-state.ts";

type Effect = PolicyEffect | TimerEffect<PolicyEvent>;
type Tools = HostTools<PolicyEvent>;
type EffectOf<T extends PolicyEffect["type"]> = Extract<PolicyEffect, { readonly type: T }>;

const phases = ["loading", "idle", "initializing", "pulling", "meshing", "computing", "promoting"] as const;

/** Before the configuration is known nothing waits by these. */
const unknownTiming = { initializeMs: 300_000, pullMs: 30_000, meshMs: 10_000, stepMs: 60_000, commandMs: 5_000 };

/** The role of policy replicas on given ports. */
export const policyRoleOn = (ports: Ports): Role =>
  defineRole({
    role: "policy",
    build: ports.engineBuild,
    phases,
    logic: policyLogic,
    input: { timing: unknownTiming },
    create: (tools: WorkTools): Work<Effect, PolicyEvent> => new PolicyWork(tools, ports),
  });

interface Opened extends Admission {
  readonly engine: PolicyEngine;
  readonly state: TrainerState;
  readonly table: OwnTable;
  /** Of a job that measures the loss on held-out rows. */
  readonly task: Task | null;
}

class PolicyWork implements Work<Effect, PolicyEvent> {
  readonly #tools: WorkTools;
  readonly #ports: Ports;
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
  /** What was queued last, for the error when it does not end. */
  #lastWork = "none";

  constructor(tools: WorkTools, ports: Ports) {
    this.#tools = tools;
    this.#ports = meteredPorts(ports, tools.environment);
    this.#publications = new Publications(tools.environment);
    this.#tables = new Tables(this.#ports, tools.identity);
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
    "step.discard": () => this.#inTurn("discarding", async ({ engine }) => engine.discard()).then(() => {}),
  };

  async open(admission: Admission): Promise<void> {
    try {
      const { config } = admission;
      this.#ports.network(config.network);
      const task = heldOutRowsOf(config) > 0 ? await this.#ports.task(config) : null;
      const cut = this.#ports.trainerCut(config);
      const own = cut && this.#ownRank(admission, cut);
      const engine = await this.#ports.policyEngine(config, own ?? undefined);
      engine.onLost?.(this.#tools.fail);
      const table = await ownTable(this.#ports, engine.info().tensors, this.#closing.signal);
      const { environment, identity } = this.#tools;
      const tools: StateTools = { ...admission, ports: this.#ports, engine, table, environment, identity };
      const state = cut && own ? await ShardedState.open(tools, own, cut) : await WholeState.open(tools);
      this.#tools.beats.setPhase("idle");
      this.#resolveOpened({ ...admission, engine, state, table, task });
    } catch (error) {
      this.#rejectOpened(error);
      throw error;
    }
  }

  /** What this process, rank 0 of several, does with its shard. */
  #ownRank({ config, dataKey }: Admission, cut: RankCut): RankTrainer {
    const { job, id } = this.#tools.identity;
    const { clock, logger } = this.#tools.environment;
    return new RankTrainer({ ports: this.#ports, clock, logger, replica: id, rank: 0, cut, job, dataKey, config });
  }

  async close(): Promise<void> {
    this.#abortMesh("closing");
    this.#closing.abort(new Error("closing"));
    this.#pullAbort.abort(new Error("closing"));
    this.#rejectOpened(errors.ActorNotOpen({ what: "close" }));
    await this.#engineWork.catch(() => {});
    this.#mesh?.close();
    const opened = await this.#opened.catch(() => null);
    await opened?.state.close();
    await opened?.engine.close();
    await opened?.task?.close();
  }

  #initialize({ body }: EffectOf<"weights.initialize">, tools: Tools): Promise<void> {
    const { lineage, version, source } = body;
    const signal = AbortSignal.any([this.#pullAbort.signal, tools.signal]);
    return settle<PolicyEvent>(
      tools,
      () =>
        this.#inPhase("initializing", async (opened) => {
          const { engine, table } = opened;
          if (source.kind === "checkpoint") {
            const { manifestDigests } = source;
            await opened.state.load({ path: checkpointPathOf(source.path, opened.config), manifestDigests }, signal);
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
    { state, table, dataKey, config }: Opened,
    signal: AbortSignal,
  ): Promise<void> {
    signal.throwIfAborted();
    await this.#tables.check(wanted, table, { dataKey, config, signal });
    await state.pull(wanted, signal);
  }

  #openMesh({ body }: EffectOf<"mesh.open">, tools: Tools): Promise<void> {
    const { epoch, members } = body;
    this.#abortMesh("a newer epoch");
    this.#abort = new AbortController();
    const { signal } = this.#abort;
    return settle<PolicyEvent>(
      tools,
      () =>
        this.#inPhase("meshing", async ({ engine, state }) => {
          signal.throwIfAborted();
          this.#mesh?.close();
          this.#mesh = null;
          this.#members = members;
          this.#ops = 0;
          this.#mesh = await state.openMesh(body, AbortSignal.any([signal, tools.signal]));
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
    const { transport, beats, environment } = this.#tools;
    return settle<PolicyEvent>(
      tools,
      () =>
        this.#inPhase("computing", async ({ engine, config, state, task }) => {
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
            heldOut: task && { task, logger: environment.logger },
            nextOp: () => ++this.#ops,
            clock: tools.clock,
            signal,
            onShard: () => beats.progress(),
          });
          const { sections, ...sketch } = await state.candidate(signal);
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
    return this.#inTurn("publishing", async (opened) => {
      try {
        tools.post({ type: "weights.published", ...(await this.#publications.later(opened, body)) });
      } catch (error) {
        if (hasCode(error, "MUSTER_ERR_PROMOTED_DIFFERS") || tools.signal.aborted) throw error;
        tools.post({ type: "weights.unpublished", lineage, version, cause: messageOf(error) });
      }
    });
  }

  #inPhase<T>(phase: (typeof phases)[number], work: (opened: Opened) => Promise<T>): Promise<T> {
    return this.#inTurn(phase, async (opened) => {
      this.#tools.beats.setPhase(phase);
      return await work(opened).finally(() => this.#tools.beats.setPhase("idle"));
    });
  }

  /** Runs work on the engine after whatever runs on it now. The machine asks for more only when that is over or aborted. */
  #inTurn<T>(what: string, work: (opened: Opened) => Promise<T>): Promise<T> {
    const { clock } = this.#tools.environment;
    const result = mustEnd(`the engine's last work (${this.#lastWork})`, this.#engineWork, clock).then(async () =>
      work(await this.#opened),
    );
    this.#lastWork = what;
    this.#engineWork = result.catch(() => {});
    return result;
  }
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

/** The handlers of a rollout replica: its engine, its task and reward, driven by the effects of its machine. */
import { hasCode, messageOf } from "@muster/base";
import type { PromptKey, Task } from "@muster/data";
import {
  collectGroups,
  failureKindOf,
  type GenerateFunction,
  type GroupPrompt,
  givenAnswers,
  type RankShards,
  type Reward,
  type RolloutEngine,
} from "@muster/engine";
import { type Chunk, type RolloutEffect, type RolloutEvent, rolloutLogic, type TimerEffect } from "@muster/machines";
import {
  type Body,
  bodyBytesMax,
  type FailureKind,
  type GroupReceipt,
  isSupervised,
  subjectsOf,
  type TrajectoryGroup,
  toGroupsBatch,
  type WorkItem,
} from "@muster/protocol";
import type { HostTools } from "@muster/runtime";
import { errors } from "../errors.ts";
import { storeBody } from "../groups/store.ts";
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
import { rankShards } from "../shards/rank-shards.ts";
import { engineVersionOf, policyVersionOf } from "../weights.ts";
import { Arrivals } from "./arrivals.ts";
import { heldBackTellers, keeperOf, type Sending } from "./begun.ts";
import { bundlesOfGroups } from "./bundles.ts";
import { watchEngine } from "./engine-health.ts";
import { evaluate } from "./evaluate.ts";
import { readBegun } from "./read-begun.ts";
import { causesOf, receiptOf } from "./receipts.ts";
import { isShown, type SamplePlace, sampleOf } from "./samples.ts";

type Effect = RolloutEffect | TimerEffect<RolloutEvent>;
type Tools = HostTools<RolloutEvent>;
type TrainItem = Extract<WorkItem, { purpose: "train" }>;

const phases = ["loading", "idle", "pulling", "generating", "evaluating"] as const;

/** The role of rollout replicas on given ports. */
export const rolloutRoleOn = (ports: Ports): Role =>
  defineRole({
    role: "rollout",
    build: ports.engineBuild,
    phases,
    logic: rolloutLogic,
    input: { timing: { pullMs: 30_000, leaseMs: 60_000 }, chunkGroups: 1, leasesMax: 1 },
    create: (tools: WorkTools): Work<Effect, RolloutEvent> => new RolloutWork(tools, ports),
  });

interface Opened extends Admission {
  readonly engine: RolloutEngine;
  readonly task: Task;
  readonly reward: Reward;
  readonly generate: GenerateFunction | null;
}

class RolloutWork implements Work<Effect, RolloutEvent> {
  readonly #tools: WorkTools;
  readonly #ports: Ports;
  readonly #arrivals: Arrivals;
  readonly #opened: Promise<Opened>;
  #resolveOpened: (opened: Opened) => void = () => {};
  #rejectOpened: (error: unknown) => void = () => {};
  #unwatch = (): void => {};
  /** Chunks that are being generated. */
  #chunks = 0;
  #pullAbort = new AbortController();
  #workAbort = new AbortController();
  #handBack = new AbortController();
  #generating: Promise<void> = Promise.resolve();

  constructor(tools: WorkTools, ports: Ports) {
    this.#tools = tools;
    this.#ports = meteredPorts(ports, tools.environment);
    this.#arrivals = new Arrivals(tools, this.#ports);
    this.#opened = new Promise((resolve, reject) => {
      this.#resolveOpened = resolve;
      this.#rejectOpened = reject;
    });
    this.#opened.catch(() => {});
  }

  readonly handlers: RoleHandlers<RolloutEffect, RolloutEvent> = {
    "weights.pull": (effect, tools) => this.#pull(effect.body, tools),
    "weights.abort": ({ reason }) => {
      this.#pullAbort.abort(new Error(reason));
      this.#pullAbort = new AbortController();
    },
    "groups.generate": ({ chunk }, tools) => {
      this.#generating = this.#generate(chunk, tools);
      return this.#generating;
    },
    "groups.handBack": ({ reason }) => this.#handBack.abort(errors.HandedBack({ reason })),
    "groups.abort": ({ reason }, tools) => {
      this.#workAbort.abort(new Error(reason));
      this.#workAbort = new AbortController();
      return mustEnd("generating", this.#generating, tools.clock);
    },
  };

  async open(admission: Admission): Promise<void> {
    try {
      const { network } = admission.config;
      this.#ports.network(network);
      // Modules before the engine: they are the part that a job brings along, and the likelier one to be at fault.
      const { clock, logger } = this.#tools.environment;
      const reward = await this.#ports.reward(admission.config, logger);
      const own = await this.#ports.generate(admission.config, logger);
      const prompts = await this.#ports.task(admission.config);
      const generate = isSupervised(admission.config) ? givenAnswers(prompts) : own;
      const engine = await this.#ports.rolloutEngine(admission.config, this.#shardsOf(admission));
      engine.onLost?.(this.#tools.fail);
      for (const one of [reward, generate]) one?.onStarting?.(() => this.#tools.beats.progress());
      const opened = { ...admission, engine, task: prompts, reward, generate };
      const { beats } = this.#tools;
      const isBusy = (): boolean => this.#chunks > 0;
      this.#unwatch = watchEngine({ engine, timing: admission.config.health, clock, logger, beats, isBusy });
      this.#tools.beats.setPhase("idle");
      this.#resolveOpened(opened);
    } catch (error) {
      this.#rejectOpened(error);
      throw error;
    }
  }

  /** How this process takes its own part of a version: of a replica of several it is rank 0. */
  #shardsOf({ config, dataKey }: Admission): RankShards | undefined {
    const cut = this.#ports.rankCut(config);
    if (!cut) return undefined;
    const { clock, logger } = this.#tools.environment;
    const { job, id } = this.#tools.identity;
    const trainers = this.#ports.trainerCut(config);
    const own = { replica: id, rank: 0, cut, trainers, job, dataKey, config };
    return rankShards({ ports: this.#ports, clock, logger, ...own });
  }

  async close(): Promise<void> {
    this.#pullAbort.abort(new Error("closing"));
    this.#workAbort.abort(new Error("closing"));
    this.#unwatch();
    this.#rejectOpened(errors.ActorNotOpen({ what: "close" }));
    const opened = await this.#opened.catch(() => null);
    await this.#arrivals.close();
    await opened?.engine.close();
    await opened?.task.close();
    await opened?.reward.close?.();
    await opened?.generate?.close?.();
  }

  #pull(body: Body<"weights.pull">, tools: Tools): Promise<void> {
    const { lineage, version } = body;
    const signal = AbortSignal.any([this.#pullAbort.signal, tools.signal]);
    return settle<RolloutEvent>(
      tools,
      async () => {
        // Orders come as soon as a replica is admitted; its engine may need longer.
        const opened = await this.#opened;
        signal.throwIfAborted();
        const startedMs = tools.clock.now();
        const { bytes, addresses } = await this.#arrivals.bring(body, opened, { signal, life: tools.signal });
        const durationMs = tools.clock.now() - startedMs;
        return {
          type: "weights.pulled",
          lineage,
          version,
          sections: body.sections,
          addresses: [...addresses],
          bytes,
          durationMs,
          ...saidOf(opened.engine),
        };
      },
      (error) => ({ type: "weights.errored", lineage, version, cause: messageOf(error) }),
    );
  }

  #generate(chunk: Chunk, tools: Tools): Promise<void> {
    this.#chunks += 1;
    const signal = AbortSignal.any([this.#workAbort.signal, tools.signal]);
    this.#handBack = new AbortController();
    const { signal: handBack } = this.#handBack;
    let isComputed = false;
    let messages = 0;
    const sent = (): void => {
      messages += 1;
    };
    return settle<RolloutEvent>(
      tools,
      async () => {
        const opened = await this.#opened;
        const startedMs = tools.clock.now();
        this.#checkVersion(opened.engine, chunk);
        this.#tools.beats.setPhase(chunk.items[0]?.purpose === "eval" ? "evaluating" : "generating");
        const [first] = chunk.items;
        if (first?.purpose === "eval") {
          tools.post(await evaluate({ ...opened, clock: tools.clock }, chunk, first, signal));
          sent();
        } else {
          const tellers = heldBackTellers(chunk, tools, opened.config.timing.leaseMs);
          const sending = { ...tools, sent, ...tellers };
          const groups = await this.#collect(opened, chunk, sending, { signal, handBack });
          isComputed = true;
          this.#store(chunk, groups, { ...sending, startedMs, opened });
        }
        return { type: "groups.generated", chunkId: chunk.id, messages };
      },
      (error) => ({
        type: "groups.errored",
        chunk,
        cause: messageOf(error),
        // What can not be stored is no fault of the engine.
        failure: signal.aborted || handBack.aborted || isComputed ? null : engineFailureOf(error),
        messages,
      }),
    ).finally(() => {
      this.#chunks -= 1;
      this.#tools.beats.setPhase("idle");
    });
  }

  /** Work is done with the weights it was leased for, or with newer ones of the same lineage; held-out prompts with exactly those. */
  #checkVersion(engine: RolloutEngine, chunk: Chunk): void {
    const wanted = engineVersionOf(chunk);
    const held = engine.weightVersion();
    const isExact = chunk.items[0]?.purpose === "eval";
    const newest = engineVersionOf({ lineage: chunk.lineage + 1, version: 0 });
    if (held === wanted || (!isExact && held !== null && held > wanted && held < newest)) return;
    throw errors.VersionNotHeld({
      wanted: chunk.version,
      lineage: chunk.lineage,
      held: held === null ? "none" : policyVersionOf(held),
    });
  }

  async #collect(
    { engine, task, reward, generate, config }: Opened,
    chunk: Chunk,
    tools: Sending,
    { signal, handBack }: { readonly signal: AbortSignal; readonly handBack: AbortSignal },
  ): Promise<readonly TrajectoryGroup[]> {
    const { transport } = this.#tools;
    const begun = await readBegun(chunk, { transport, logger: tools.logger, bodyBytesMax: bodyBytesMax(config) });
    const items = trainItemsOf(chunk);
    const step = items[0]?.step ?? 0;
    const { seed, batch, sampling, timing, rollout, failure } = config;
    const { save, handOver } = keeperOf(chunk, { ...this.#tools, config }, tools);
    const prompts = await Promise.all(items.map((item) => promptOf(task, keyOf(item, seed))));
    const groups = await collectGroups({
      engine,
      reward,
      generate,
      fanOut: rollout.fanOut,
      failure,
      task,
      prompts: items.map(({ index, attempt }, i) => {
        const earlier = begun.get(index);
        return { index, attempt, prompt: prompts[i] as GroupPrompt["prompt"], ...(earlier ? { begun: earlier } : {}) };
      }),
      groupSize: batch.groupSize,
      sampling: { ...sampling, stopTokenIds: task.stopTokenIds },
      seed,
      step,
      version: engine.weightVersion() ?? 0,
      rewardTimeoutMs: timing.rewardMs,
      generateTimeoutMs: timing.generateMs,
      clock: tools.clock,
      signal,
      handBack: { signal: handBack, take: handOver },
      save: { everyMs: timing.saveMs, take: save },
      // Episodes of agents take long together: who finishes one does not hang.
      settled: () => this.#tools.beats.progress(),
      logger: tools.logger,
    });
    this.#tools.beats.progress(groups.length);
    return groups.map(withPolicyVersions);
  }

  /** Stores finished groups; the receipt follows when the broker has them, while the next chunk is already being generated. */
  #store(
    chunk: Chunk,
    all: readonly TrajectoryGroup[],
    { opened, startedMs, ...tools }: Sending & { readonly startedMs: number; readonly opened: Opened },
  ): void {
    const { config } = opened;
    const { outbox, enveloper, identity } = this.#tools;
    const { messageBytes } = config.limits;
    const stores = { outbox, enveloper, identity, messageBytes };
    const { id: chunkId, leaseId, lineage, version } = chunk;
    const items = trainItemsOf(chunk);
    for (const groups of bundlesOfGroups(all, { messageBytes, bodyBytesMax: bodyBytesMax(config) })) {
      const isTaken = storeBody(
        stores,
        { kind: "groups.batch", body: toGroupsBatch(groups) },
        {
          onStored: (place) => {
            const receipts: GroupReceipt[] = groups.map((group) =>
              receiptOf(group, { place, version, training: config.training }),
            );
            // A bundle took its share of the time of the chunk.
            const durationMs = ((tools.clock.now() - startedMs) * groups.length) / all.length;
            tools.post({ type: "groups.stored", chunkId, leaseId, receipts, causes: causesOf(groups), durationMs });
            void this.#show(groups, { place, lineage, version, items }, opened);
          },
          onHeldBack: tools.resultsHeldBack,
        },
      );
      if (isTaken) tools.sent();
    }
  }

  /** Shows people what was drawn. Training never waits for it, and goes on without it. */
  async #show(
    groups: readonly TrajectoryGroup[],
    { items, ...at }: SamplePlace & { readonly items: readonly TrainItem[] },
    { task, config }: Opened,
  ): Promise<void> {
    const { outbox, enveloper, identity, environment } = this.#tools;
    const subject = subjectsOf(identity.job).report("rollout", identity.id, "samples.drawn");
    for (const group of groups) {
      if (!isShown(group, config) || outbox.room() !== null) continue;
      try {
        const prompt = await promptOf(
          task,
          keyOf(items.find(({ index }) => index === group.index) ?? group, config.seed),
        );
        const body = sampleOf(group, "fault" in prompt ? null : prompt, at, { task, config });
        outbox.offer({ subject, message: enveloper.stamp("samples.drawn", body) });
      } catch (error) {
        environment.logger.warn({ groupId: group.groupId, error }, "a sample can not be shown");
      }
    }
  }
}

function trainItemsOf({ items }: Chunk): readonly TrainItem[] {
  return items.filter((item): item is TrainItem => item.purpose === "train");
}

/** Which prompt of the task a group gets. */
function keyOf({ step, index, position }: Pick<TrainItem, "step" | "index" | "position">, seed: number): PromptKey {
  return { seed, step, index, ...(position === undefined ? {} : { position }) };
}

/** The prompt of a group. A row that makes none is a fault of that group alone. */
async function promptOf(task: Task, key: PromptKey): Promise<GroupPrompt["prompt"]> {
  try {
    return await task.trainPrompt(key);
  } catch (fault) {
    // The host had no thread for it: another one has the group.
    if (hasCode(fault, "MUSTER_ERR_TEMPLATE_THREAD")) throw fault;
    return { fault };
  }
}

/** What failed over a chunk: the engine, unless it is only busy, or holds other weights than were asked for. */
function engineFailureOf(error: unknown): FailureKind | null {
  if (hasCode(error, "MUSTER_ERR_VERSION_NOT_HELD") || hasCode(error, "MUSTER_ERR_ENGINE_VERSION_MISMATCH"))
    return null;
  const kind = failureKindOf(error);
  if (kind === "oom") return kind;
  // Somebody else can be reached: another replica has the group at once, and nobody is to blame.
  return kind === "transport" ? null : "engine_crash";
}

/** What an engine is and what it computes, for those that say it. */
function saidOf(engine: RolloutEngine): Pick<Body<"weights.held">, "engine"> {
  const { build, fingerprint } = engine.info();
  return fingerprint === undefined ? {} : { engine: { build, fingerprint } };
}

/** Segments in the numbers of the policy, not of the engine. */
function withPolicyVersions(group: TrajectoryGroup): TrajectoryGroup {
  const trajectories = group.trajectories.map((trajectory) => ({
    ...trajectory,
    segments: trajectory.segments.map((segment) => ({ ...segment, version: policyVersionOf(segment.version) })),
  }));
  return { ...group, trajectories };
}

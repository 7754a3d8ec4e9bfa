/** A model of a replica's process: the real machines, and stand-ins for its engine, its data plane and its disk. */
import type { Random } from "@muster/base";
import {
  type CheckpointEffect,
  type Chunk,
  checkpointLogic,
  type Logic,
  type MembershipEffect,
  membershipLogic,
  type PolicyEffect,
  policyLogic,
  type ReportEffect,
  type RolloutEffect,
  rolloutLogic,
  sideBySide,
  type TimerEffect,
} from "@muster/machines";
import type { ControllerPlan } from "@muster/machines/controller";
import type { Body, ReplicaRole } from "@muster/protocol";
import { type DataPlane, digestOf, type Memory, sectionsOf, serve } from "./data-plane.ts";
import type { VirtualTime } from "./virtual-time.ts";

/** Everything that a replica's machines may ask for. */
export type ReplicaEffect = MembershipEffect | PolicyEffect | RolloutEffect | CheckpointEffect | TimerEffect<unknown>;
// The model treats all roles alike; the types of each role are checked where its own tests use them.
type AnyLogic = Logic<unknown, unknown, unknown, ReplicaEffect>;

/** What a replica is started with. */
export interface ReplicaOptions {
  readonly id: string;
  readonly role: ReplicaRole;
  readonly incarnation: string;
  readonly pid: number;
  readonly plan: ControllerPlan;
  readonly time: VirtualTime;
  readonly data: DataPlane;
  readonly random: Random;
  readonly report: (replica: ReplicaHost, effect: ReportEffect) => void;
  /** Sees every effect before it is executed. */
  readonly observe: (replica: ReplicaHost, effect: ReplicaEffect) => void;
  readonly ended: (replica: ReplicaHost, outcome: string) => void;
}

function logicOfRole(role: ReplicaRole, { timing, limits }: ControllerPlan): { logic: AnyLogic; input: unknown } {
  const chunkGroups = limits.chunkGroups;
  const work = {
    policy: () => ({ logic: policyLogic, input: { timing: { ...timing, initializeMs: timing.gatherMs } } }),
    rollout: () => ({ logic: rolloutLogic, input: { timing, chunkGroups, leasesMax: limits.leasesPerRollout + 1 } }),
    checkpoint: () => ({ logic: checkpointLogic, input: timing }),
  }[role]();
  return work as unknown as { logic: AnyLogic; input: unknown };
}

/** One life of a replica. */
export class ReplicaHost {
  readonly id: string;
  readonly role: ReplicaRole;
  readonly incarnation: string;
  readonly pid: number;
  readonly memory: Memory;
  isAlive = true;
  snapshot: unknown;
  readonly #options: ReplicaOptions;
  readonly #logic: AnyLogic;
  readonly #timers = new Map<string, () => void>();
  #openedEpoch = 0;
  #isDeaf = false;
  #cancelPull: () => void = () => {};
  /** What comes in while the process is frozen. */
  #held: unknown[] | null = null;

  constructor(options: ReplicaOptions) {
    this.id = options.id;
    this.role = options.role;
    this.incarnation = options.incarnation;
    this.pid = options.pid;
    this.#options = options;
    this.memory = {
      id: options.id,
      incarnation: options.incarnation,
      live: "",
      liveKey: "",
      candidate: "",
      served: new Map(),
      whole: new Set(),
      isReachable: true,
    };
    options.data.memories.set(options.id, this.memory);
    const { plan, role } = options;
    const { logic, input } = logicOfRole(role, plan);
    this.#logic = sideBySide(membershipLogic as unknown as AnyLogic, logic) as unknown as AnyLogic;
    const first = {
      role,
      host: "h",
      pid: options.pid,
      build: role === "checkpoint" ? "" : "b",
      timing: { registerMs: plan.timing.commandMs, gatherMs: plan.timing.gatherMs, drainMs: plan.timing.drainMs },
    };
    const step = this.#logic.init({ first, second: input });
    this.snapshot = step.snapshot;
    for (const effect of step.effects) this.#perform(effect);
  }

  get isFrozen(): boolean {
    return this.#held !== null;
  }

  hear(event: unknown): void {
    if (!this.isAlive || this.#isDeaf) return;
    if (this.#held) {
      this.#held.push(event);
      return;
    }
    const step = this.#logic.step(this.snapshot, event);
    this.snapshot = step.snapshot;
    for (const effect of step.effects) this.#perform(effect);
  }

  /** Stops the process as SIGSTOP would, and lets it go on later. */
  freeze(ms: number): void {
    if (this.#held) return;
    this.#held = [];
    this.#options.time.after(ms, () => {
      const missed = this.#held ?? [];
      this.#held = null;
      for (const event of missed) this.hear(event);
    });
  }

  /** Hears nothing from now on. */
  deafen(): void {
    this.#isDeaf = true;
  }

  /** Ends the process as SIGKILL would. */
  kill(): void {
    this.isAlive = false;
    this.memory.isReachable = false;
    this.#options.data.leave(this.incarnation, Number.POSITIVE_INFINITY);
  }

  #later(ms: number, run: () => void): () => void {
    return this.#options.time.after(ms, () => this.isAlive && run());
  }

  #perform(effect: ReplicaEffect): void {
    const { observe, report, data } = this.#options;
    if (!this.isAlive) return;
    observe(this, effect);
    switch (effect.type) {
      case "timer.start":
        this.#timers.get(effect.id)?.();
        this.#timers.set(
          effect.id,
          this.#options.time.after(effect.delayMs, () => this.hear(effect.event)),
        );
        return;
      case "timer.cancel":
        this.#timers.get(effect.id)?.();
        return;
      case "report":
        report(this, effect);
        if (effect.told !== undefined) this.#later(2, () => this.hear({ type: "report.told", id: effect.told }));
        return;
      case "process.end":
        this.kill();
        this.#options.ended(this, effect.outcome);
        return;
      case "mesh.abort":
        data.leave(this.incarnation, this.#openedEpoch);
        return;
      case "weights.abort":
        this.#cancelPull();
        return;
      default:
        this.#work(effect);
    }
  }

  #work(effect: ReplicaEffect): void {
    if (effect.type === "weights.initialize") this.#initialize(effect.body);
    if (effect.type === "weights.pull") this.#pull(effect.body);
    if (effect.type === "weights.publish") this.#publish(effect.body);
    if (effect.type === "mesh.open") this.#join(effect.body);
    if (effect.type === "step.compute") this.#compute(effect.body);
    if (effect.type === "step.promote") this.#promote(effect.body);
    if (effect.type === "groups.generate") this.#generate(effect.chunk);
    if (effect.type === "checkpoint.write") this.#write(effect.body);
  }

  #heldBody(lineage: number, version: number, digest: string): Body<"weights.held"> {
    const body = { lineage, version, sections: sectionsOf(digest), bytes: 64, durationMs: 1 };
    if (this.role === "rollout") return { ...body, addresses: [] };
    const training = this.memory.whole.has(`${lineage}.${version}`) ? [`unix:${this.id}/training`] : [];
    return { ...body, addresses: [`unix:${this.id}`], training };
  }

  #initialize({ lineage, version, source }: Body<"weights.initialize">): void {
    this.#later(30, () => {
      const digest = this.#beginning(source);
      if (digest === null) {
        this.hear({ type: "weights.errored", lineage, version, cause: "no holder" });
        return;
      }
      serve(this.memory, { key: `${lineage}.${version}`, digest, isWhole: true });
      const meta = { lineage, tensors: [], digest: "t" };
      this.hear({ type: "weights.initialized", ...this.#heldBody(lineage, version, digest), meta });
    });
  }

  #beginning(source: Body<"weights.initialize">["source"]): string | null {
    if (source.kind === "checkpoint") return source.path;
    if (source.kind !== "memory") return digestOf(`seed ${this.#options.plan.seed}`);
    return this.#options.data.findWhole(source.holders, `${source.lineage}.${source.version}`);
  }

  #pull({ lineage, version, sections, holders }: Body<"weights.pull">): void {
    this.#cancelPull();
    if (this.#options.data.arePullsStuck) return;
    this.#cancelPull = this.#later(10 + this.#options.random.next() * 10, () => {
      const { data } = this.#options;
      const key = `${lineage}.${version}`;
      const digest = this.role === "rollout" ? data.find(holders, key) : data.findWhole(holders, key);
      if (digest === null || `w-${digest}` !== sections[0]?.digest) {
        this.hear({ type: "weights.errored", lineage, version, cause: "no holder" });
        return;
      }
      serve(this.memory, { key, digest, isWhole: this.role === "checkpoint" });
      this.hear({ type: "weights.pulled", ...this.#heldBody(lineage, version, digest), sections });
    });
  }

  #publish({ lineage, version }: Body<"weights.publish">): void {
    this.#later(5, () => {
      const key = `${lineage}.${version}`;
      if (this.memory.liveKey !== key) {
        this.hear({ type: "weights.unpublished", lineage, version, cause: "other weights are live" });
        return;
      }
      serve(this.memory, { key, digest: this.memory.live, isWhole: true });
      this.hear({ type: "weights.published", ...this.#heldBody(lineage, version, this.memory.live) });
    });
  }

  #join(body: Body<"mesh.build">): void {
    this.#options.data.leave(this.incarnation, this.#openedEpoch);
    this.#openedEpoch = body.epoch;
    this.#options.data.join(this.memory, body, (missing) => {
      this.#later(10, () =>
        this.hear(
          missing.length === 0
            ? { type: "mesh.joined", epoch: body.epoch }
            : { type: "mesh.errored", epoch: body.epoch, cause: "a member is missing", missing },
        ),
      );
    });
  }

  #compute(body: Body<"step.run">): void {
    const { step, attempt, epoch } = body;
    const groups = this.#options.data.read(body.batch);
    const failed = (cause: string, missing: readonly string[]): void => {
      this.#later(1, () => this.hear({ type: "step.errored", step, attempt, epoch, cause, missing }));
    };
    if (!groups) {
      failed("a group of the batch is not in the groups stream", []);
      return;
    }
    this.#options.data.reduce(this.memory, body, (missing) => {
      if (missing.length > 0) {
        failed(`lost ${missing.join(", ")}`, missing);
        return;
      }
      this.memory.candidate = digestOf(`${this.memory.live} ${step} ${groups.join()}`);
      const zero = { tokens: 1, clipped: 0, klSum: 0, entropySum: 0, lossSum: 0 };
      const stats = { ...zero, gradNorm: 1, computeMs: 1, reduceMs: 1 };
      const sections = sectionsOf(this.memory.candidate);
      this.#later(40 + this.#options.random.next() * 20, () =>
        this.hear({ type: "step.computed", step, attempt, epoch, finite: true, sections, stats }),
      );
    });
  }

  #promote({ lineage, version, keep }: Body<"step.apply">): void {
    const digest = this.memory.candidate;
    this.#later(5, () => {
      serve(this.memory, { key: `${lineage}.${version}`, digest, isWhole: keep?.includes("training") ?? true });
      this.hear({ type: "step.promoted", ...this.#heldBody(lineage, version, digest) });
    });
  }

  #generate(chunk: Chunk): void {
    const { random, data } = this.#options;
    const chunkId = chunk.id;
    const [lineage, version] = this.memory.liveKey.split(".").map(Number);
    if (lineage !== chunk.lineage || (version ?? -1) < chunk.version) {
      this.#later(1, () => this.hear({ type: "groups.errored", chunk, cause: "other weights are live", messages: 0 }));
      return;
    }
    const live = this.memory.live;
    const items = chunk.items.flatMap((item) => (item.purpose === "train" ? [item] : []));
    this.#later(20 + random.next() * 20, () => this.hear({ type: "groups.generated", chunkId: chunk.id, messages: 1 }));
    this.#later(45, () => {
      const [first] = chunk.items;
      if (first?.purpose === "eval") {
        const { leaseId, version: asked } = chunk;
        const scored = { chunkId, leaseId, version: asked, chunk: first.chunk, prompts: first.count, correct: 1 };
        this.hear({ type: "evals.scored", ...scored });
        return;
      }
      const streamSeq = data.store(
        items.map(({ step, index }) => `${step}.${index}`),
        live,
      );
      const result = {
        streamSeq,
        version,
        completed: this.#options.plan.groupSize,
        aborted: 0,
        tokens: 10,
        rewardSum: 1,
      };
      const receipts = items.map(({ step, index, attempt }) => ({ step, index, attempt, ...result }));
      this.hear({ type: "groups.stored", chunkId, leaseId: chunk.leaseId, receipts, causes: [], durationMs: 1 });
    });
  }

  #write({ step, lineage, version, sections, holders }: Body<"checkpoint.save">): void {
    this.#later(60, () => {
      const path = sections[0]?.digest.slice(2) ?? "";
      const found = this.#options.data.findWhole(holders, `${lineage}.${version}`);
      if (found !== path) {
        this.hear({ type: "checkpoint.errored", step, lineage, cause: "no holder" });
        return;
      }
      const saved = { step, lineage, version, path, manifestDigest: "m", bytes: 1, durationMs: 1 };
      this.hear({ type: "checkpoint.written", ...saved });
    });
  }
}

/** What was sampled and what was trained: nothing twice, nothing stale, nothing aborted, nothing lost (S15 – S19, S21 – S24). */
import { mixSeed } from "@muster/base";
import type { TrainSample } from "@muster/engine";
import type { ControllerState } from "@muster/machines/controller";
import {
  type Body,
  fromGroupsBatch,
  fromGroupsBegun,
  type GroupReceipt,
  groupIdOf,
  type JobConfig,
  type Trajectory,
  type TrajectoryGroup,
  validMinOf,
} from "@muster/protocol";
import type { Decision } from "./journal-model.ts";
import type { Judge } from "./judge.ts";
import type { Observed } from "./observed.ts";

/** What the checker remembers of a stored group. */
interface StoredGroup {
  readonly oldestVersion: number;
  readonly completed: number;
  readonly aborted: number;
}

const lineageUnit = 2 ** 32;

/** The model of samples, from the bytes in the groups stream and the decisions in the journal. */
export class TrainingChecker {
  readonly #judge: Judge;
  readonly #stalenessMax: number;
  readonly #groupSize: number;
  /** Fewest valid trajectories of a group that teach. */
  readonly #validMin: number;
  /** False when receipts may be lies: then they are judged when they are trained on. */
  readonly #isHonest: boolean;
  /** False when what is stored whole may come to a reader in part. */
  readonly #isReadable: boolean;
  /** By `<seq>/<group>`. */
  readonly #stored = new Map<string, StoredGroup>();
  /** Fingerprints of the responses that may be learned from, and their groups. */
  readonly #valid = new Map<number, string>();
  /** Versions that a process ever served, and the digest of the bytes. */
  readonly #served = new Map<Observed, Map<number, string>>();
  /** Fingerprint of each response, by the weights that sampled it and its place in the job. */
  readonly #responses = new Map<string, number>();
  /** Versions in what was stored of unfinished groups, by group: whoever goes on with one has their tokens, too. */
  readonly #begun = new Map<string, Set<number>>();
  /** Who voted how on which attempt, as the journal has it. */
  readonly #votes = new Map<string, Body<"step.voted">>();
  /** Groups of the step that was ordered last. */
  #batch = "";
  /** Groups trained in the present lineage, by step. */
  readonly #trained = new Map<number, readonly GroupReceipt[]>();

  constructor(
    judge: Judge,
    config: Pick<JobConfig, "stalenessMax" | "training"> & { readonly batch: { readonly groupSize: number } },
    { isHonest = true, isReadable = true } = {},
  ) {
    this.#judge = judge;
    this.#isHonest = isHonest;
    this.#isReadable = isReadable;
    this.#stalenessMax = config.stalenessMax;
    this.#groupSize = config.batch.groupSize;
    this.#validMin = validMinOf(config);
  }

  /** A rollout engine serves a version, with bytes of this digest, from now on. */
  serving(process: Observed, engineVersion: number, digest: string): void {
    const served = this.#served.get(process) ?? new Map<number, string>();
    served.set(engineVersion % lineageUnit, digest);
    this.#served.set(process, served);
  }

  /** Groups were stored. */
  stored(body: Body<"groups.batch">, seq: number, by: Observed): void {
    const groups = fromGroupsBatch(body);
    this.#judge.require(
      typeof groups !== "string",
      "S17",
      () => `message ${seq} of the groups stream: ${String(groups)}`,
    );
    if (typeof groups !== "string") for (const group of groups) this.#remember(group, seq, by);
  }

  /** What is drawn of unfinished groups was stored. */
  begun(body: Body<"groups.begun">, by: Observed): void {
    const groups = fromGroupsBegun(body);
    this.#judge.require(
      groups.length === body.groups.length,
      "S17",
      () => `${by.name} stores begun groups whose lengths or segments do not agree`,
    );
    for (const { step, index, responses } of groups) {
      const versions = responses.flatMap(({ segments }) => segments.map(({ version }) => version));
      const groupId = groupIdOf(step, index);
      this.#checkOrigin(groupId, versions, by);
      this.#begun.set(groupId, new Set([...(this.#begun.get(groupId) ?? []), ...versions]));
    }
  }

  /** Tokens are of weights that their sampler served, or were taken over with what was begun. */
  #checkOrigin(groupId: string, versions: readonly number[], by: Observed): void {
    const served = this.#served.get(by);
    this.#judge.require(
      versions.every((version) => served?.has(version) || this.#begun.get(groupId)?.has(version)),
      "S17",
      () =>
        `${by.name} says that group ${groupId} is of versions ${versions.join()}, it neither served nor took over one of them`,
    );
  }

  /** A sample enters the loss. */
  learning(process: Observed, sample: TrainSample): void {
    this.#judge.require(
      this.#valid.has(fingerprint(sample.tokens, sample.logprobs)) && Number.isFinite(sample.advantage),
      "S21",
      () => `${process.name} learns from a response that nobody completed`,
    );
  }

  /** The group that a sample belongs to. */
  groupOf({ tokens, logprobs }: Pick<TrainSample, "tokens" | "logprobs">): string {
    return this.#valid.get(fingerprint(tokens, logprobs)) ?? "";
  }

  /** A decision was journaled. */
  decided({ before, after, event, effects }: Decision): void {
    if (before.restore.lineage !== after.restore.lineage) this.#rollBack(after);
    for (const effect of effects)
      if (effect.type === "command" && effect.kind === "step.run") this.#batch = namesOf(effect.body.batch);
    if (event.type === "step.voted") {
      this.#votes.set(voteKey(event.body, event.incarnation), event.body);
      this.#checkReadable(event.body, before);
    }
    for (let step = before.step.step; step < after.step.step; step++) this.#settle(step, before, after);
    if (event.type !== "groups.completed" || !this.#isHonest) return;
    for (const receipt of event.body.receipts) this.#verify(receipt, { from: event.from, after });
  }

  /** What was stored whole stays until no step needs it. */
  #checkReadable(
    { step, attempt, epoch, unreadable = [] }: Body<"step.voted">,
    { step: run, mesh }: ControllerState,
  ): void {
    const isPresent = step === run.step && attempt === run.attempt && epoch === mesh.epoch && run.state === "running";
    if (!isPresent || !this.#isHonest || !this.#isReadable) return;
    for (const { streamSeq, groupIds } of unreadable)
      for (const id of groupIds)
        this.#judge.require(
          !this.#stored.has(`${streamSeq}/${id}`),
          "S15",
          () => `group ${id} was stored as message ${streamSeq}, and is gone while step ${step} needs it`,
        );
  }

  #remember(group: TrajectoryGroup, seq: number, by: Observed): void {
    const healthy = group.trajectories.filter(({ status }) => status !== "aborted");
    // One alone that was drawn has nothing to be compared with: it teaches nothing, and counts as aborted.
    const valid = healthy.length < this.#validMin ? [] : healthy;
    const versions = valid.flatMap(({ segments }) => segments.map(({ version }) => version));
    const served = this.#served.get(by);
    this.#checkOrigin(group.groupId, versions, by);
    for (const { tokens, logprobs } of valid) this.#valid.set(fingerprint(tokens, logprobs), group.groupId);
    for (const [sample, trajectory] of group.trajectories.entries())
      this.#compare(trajectory, served, `${group.groupId}/${sample}`);
    this.#stored.set(`${seq}/${group.groupId}`, {
      oldestVersion: Math.min(Number.MAX_SAFE_INTEGER, ...versions),
      completed: valid.length,
      aborted: group.trajectories.length - valid.length,
    });
  }

  /** What is sampled depends on weights, seed and place alone: not on who sampled it, nor on what became of its neighbours. */
  #compare(
    { status, segments, tokens, logprobs }: Trajectory,
    served: ReadonlyMap<number, string> | undefined,
    place: string,
  ): void {
    const [only, ...more] = segments;
    const weights = only && more.length === 0 ? served?.get(only.version) : undefined;
    if (status === "aborted" || weights === undefined) return;
    const key = `${weights}/${place}`;
    const found = fingerprint(tokens, logprobs);
    const known = this.#responses.get(key) ?? found;
    this.#responses.set(key, known);
    this.#judge.require(known === found, "S19", () => `response ${place} is not the one that was sampled before`);
  }

  /** What is refused is no matter, and what points to nothing is not trained: see {@link #settle}. */
  #verify(receipt: GroupReceipt, { from, after }: { readonly from: string; readonly after: ControllerState }): void {
    const stored = this.#stored.get(keyOf(receipt));
    const kept = after.groups[receipt.step]?.receipts[receipt.index];
    if (kept?.streamSeq !== receipt.streamSeq || !stored) return;
    const isTrue = stored.completed === receipt.completed && stored.aborted === receipt.aborted;
    this.#judge.require(isTrue, "S15", () => `the receipt of ${keyOf(receipt)} by ${from} is not what was stored`);
  }

  /** A step is over: committed or skipped. */
  #settle(step: number, before: ControllerState, after: ControllerState): void {
    const isCommitted = after.weights !== before.weights;
    const receipts = isCommitted ? (after.history[step] ?? []) : [];
    const judge = this.#judge;
    judge.require(!this.#trained.has(step), "S22", () => `step ${step} ended twice in one lineage`);
    if (isCommitted) this.#checkVotes(before, after);
    const base = before.weights?.version ?? 0;
    const seen = new Set<number>();
    for (const receipt of receipts) {
      const { index } = receipt;
      judge.require(
        receipt.step === step && !seen.has(index),
        "S16",
        () => `group ${receipt.step}.${index} is trained twice, in step ${step}`,
      );
      seen.add(index);
      const stored = this.#stored.get(keyOf(receipt));
      judge.require(stored !== undefined, "S15", () => `group ${keyOf(receipt)} is trained and was never stored`);
      const age = base - (stored && stored.completed > 0 ? stored.oldestVersion : base);
      judge.require(
        age <= this.#stalenessMax,
        "S18",
        () => `group ${keyOf(receipt)} is ${age} versions old, ${this.#stalenessMax} are allowed`,
      );
    }
    if (isCommitted) this.#checkBatch(step, receipts);
    this.#trained.set(step, receipts);
    this.#audit(after, { step, invariant: "S15" });
  }

  /** What is committed is what the members were told to train on, no more and no less. */
  #checkBatch(step: number, receipts: readonly GroupReceipt[]): void {
    const named = receipts.map(keyOf).toSorted().join();
    this.#judge.require(
      this.#batch === named,
      "S22",
      () => `step ${step} is committed with groups ${named}, its members trained on ${this.#batch}`,
    );
  }

  /**
   * A step is committed only if every surviving member of the mesh voted for it with finite numbers (semantics 6.1, 6.2). Who comes back
   * under the id of a member that voted and died is no rank of this mesh.
   */
  #checkVotes(before: ControllerState, after: ControllerState): void {
    const { step, mesh } = before;
    for (const id of mesh.members) {
      const member = after.members[id];
      if (!member || member.joinedSeq > mesh.joins) continue;
      const vote = this.#votes.get(voteKey({ ...step, epoch: mesh.epoch }, member.incarnation));
      this.#judge.require(
        vote?.vote === "commit",
        "S22",
        () => `step ${step.step} is committed, ${id} voted ${vote?.vote ?? "nothing"}`,
      );
      this.#judge.require(
        vote?.finite !== false,
        "S23",
        () => `step ${step.step} is committed, ${id} found it not finite`,
      );
    }
  }

  /** The ledger's counts against a count of what was really stored and trained. */
  #audit(after: ControllerState, { step, invariant }: { readonly step: number; readonly invariant: string }): void {
    const groups = [...this.#trained.values()].flat().map((receipt) => this.#stored.get(keyOf(receipt)));
    const completed = groups.reduce((sum, group) => sum + (group?.completed ?? 0), 0);
    const aborted = groups.reduce((sum, group) => sum + (group?.aborted ?? 0), 0);
    const { ledger } = after;
    this.#judge.require(
      ledger.trained === completed && ledger.aborted === aborted,
      invariant,
      () =>
        `after step ${step} the ledger has ${ledger.trained} trained and ${ledger.aborted} aborted, true is ${completed} and ${aborted}`,
    );
    const whole = groups.every((group) => (group?.completed ?? 0) + (group?.aborted ?? 0) === this.#groupSize);
    this.#judge.require(whole, "S15", () => `a group of step ${step} has not ${this.#groupSize} trajectories`);
  }

  /** The job goes back to the newest checkpoint, and no further; what was trained since is pending again. */
  #rollBack(after: ControllerState): void {
    // One record may tell of a checkpoint that became durable, or is damaged, before the job went back; a later one is of the line that it left.
    const saved = after.checkpoints.saved?.step ?? 0;
    // Whether it was kept is known to the checker of memory.
    const isKept = after.restore.source.kind === "memory" && after.step.step > saved;
    const kept = isKept ? after.step.step - 1 : saved;
    this.#judge.require(
      after.step.step === kept + 1,
      "S24",
      () => `the job goes back to step ${after.step.step - 1}, its newest checkpoint is of step ${kept}`,
    );
    for (const step of [...this.#trained.keys()]) if (step >= after.step.step) this.#trained.delete(step);
    this.#audit(after, { step: kept, invariant: "S24" });
  }
}

function namesOf(batch: Body<"step.run">["batch"]): string {
  return batch
    .flatMap(({ streamSeq, groupIds }) => groupIds.map((id) => `${streamSeq}/${id}`))
    .toSorted()
    .join();
}

function voteKey(at: { readonly step: number; readonly attempt: number; readonly epoch: number }, who: string): string {
  return `${at.step}/${at.attempt}/${at.epoch}/${who}`;
}

function keyOf({ streamSeq, step, index }: GroupReceipt): string {
  return `${streamSeq}/${step}.${index}`;
}

function fingerprint(tokens: Int32Array, logprobs: Float32Array): number {
  return (mixSeed(...tokens) ^ Math.imul(logprobs.length, 0x9e3779b1) ^ Math.floor((logprobs[0] ?? 0) * 1e6)) >>> 0;
}

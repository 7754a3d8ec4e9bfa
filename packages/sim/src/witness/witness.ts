/** Sees everything that happens in a run, decodes it once, and tells the checkers. */
import type { Controller } from "@muster/actors/controller";
import {
  BlameChecker,
  BudgetChecker,
  CheckpointChecker,
  DeviceChecker,
  FactChecker,
  FleetChecker,
  JournalModel,
  type Judge,
  LossChecker,
  MembershipChecker,
  MemoryChecker,
  OrderChecker,
  ownDigest,
  PositionChecker,
  ProgressChecker,
  type PublicFact,
  RankChecker,
  SeenPieces,
  ShardChecker,
  ToldChecker,
  TrainingChecker,
  WeightsChecker,
} from "@muster/check/internal";
import type { ControllerState } from "@muster/machines/controller";
import { type AnyMessage, flawOf, type Identity, type Ledger, readPlain, type Section } from "@muster/protocol";
import type { Bug } from "../cluster/bug.ts";
import type { ClusterObserver } from "../cluster/cluster-given.ts";
import { isCut } from "../cluster/last-controller.ts";
import { graceMsOf, type Scenario } from "../cluster/scenario.ts";
import { kindOfSubject } from "../net/subject-kind.ts";
import type { HeardMessage, StoredMessage } from "../net/wire.ts";
import { planeDigest } from "../plane/digest.ts";
import type { SimDisk } from "../plane/sim-disk.ts";
import type { SimProcess } from "../world/process.ts";
import type { World } from "../world/world.ts";
import { allowanceOf, areSimple } from "./allowance.ts";
import { DeafChecker } from "./deaf-checker.ts";
import { areKills, explainedUntilMs, isWide, outagesOf } from "./explained.ts";
import { LeftoverChecker } from "./leftover-checker.ts";
import { lineOf } from "./log-line.ts";
import { sectionDigestOf } from "./section-digest.ts";
import { startOf } from "./start-state.ts";

/** How the job ended, in its own words. */
export interface JobEnd {
  readonly outcome: string;
  readonly reason: string;
  readonly step: number;
  /** 0 when the job never went back. */
  readonly lineage: number;
  readonly version: number;
  readonly sections: readonly Section[];
  readonly ledger: Ledger;
}

type Envelope = AnyMessage & { readonly to?: string | undefined };

/** What a controller could not say, by its own alarm. */
function unsaidIn(message: Envelope): string | null {
  return message.kind === "alarm.raised" && message.body.alarm === "unsaid" ? message.body.detail : null;
}

/** After these a trainer may find a group unreadable that was stored whole. */
const unreadableFaults: readonly string[] = ["failpoint", "spoil", "misreport", "suffix-loss"];

/** The observer of one run. */
export class Witness implements ClusterObserver {
  readonly faults = new Map<string, number>();
  /** The end of the job, once announced. */
  end: JobEnd | null = null;
  readonly #judge: Judge;
  readonly #journal: JournalModel;
  readonly #facts: FactChecker;
  readonly #tellings: ToldChecker;
  /** Ids of public facts: one that is said again is the same. */
  readonly #told = new Set<string>();
  readonly #weights: WeightsChecker;
  readonly #training: TrainingChecker;
  readonly #pieces = new SeenPieces();
  readonly #members: MembershipChecker;
  readonly #orders: OrderChecker;
  readonly #fleet: FleetChecker;
  readonly #devices: DeviceChecker;
  readonly #ranks: RankChecker;
  readonly #progress: ProgressChecker;
  readonly #losses: LossChecker;
  readonly #budgets: BudgetChecker;
  readonly #blames: BlameChecker;
  readonly #deaf: DeafChecker;
  /** The arithmetic of some samples overflows in this run. */
  readonly #overflows: boolean;
  readonly #graceMs: number;
  #checkpoints: CheckpointChecker | null = null;
  #leftovers: LeftoverChecker | null = null;
  #isCut = false;
  #isCutNamed = false;

  constructor(
    world: World,
    judge: Judge,
    {
      scenario,
      bug: { logic, digest = planeDigest } = {},
    }: { readonly scenario: Scenario; readonly bug?: Pick<Bug, "logic" | "digest"> | undefined },
  ) {
    const { config, faults, work } = scenario;
    this.#overflows = work.overflowRate > 0;
    this.#graceMs = graceMsOf(scenario);
    this.#judge = judge;
    this.#weights = new WeightsChecker(judge, { digest: sectionDigestOf(config, digest), ...startOf(config) });
    // What a liar says is believed until somebody looks: it must not be trained on.
    const isHonest = !faults.some(({ kind }) => kind === "lie" || kind === "theft");
    const isReadable = !faults.some(({ kind }) => unreadableFaults.includes(kind));
    this.#training = new TrainingChecker(judge, config, { isHonest, isReadable });
    this.#members = new MembershipChecker(judge, explainedUntilMs(scenario), outagesOf(faults));
    this.#fleet = new FleetChecker(world, judge, scenario.safetyMs);
    this.#devices = new DeviceChecker(judge);
    this.#ranks = new RankChecker(judge);
    const isAlone = (scenario.controllers ?? 1) === 1;
    const isPeace = faults.length === 0 && isAlone;
    const isSimple = areSimple(faults);
    const given = { config, allowed: allowanceOf(scenario), calmMs: scenario.safetyMs };
    this.#orders = new OrderChecker(judge, config, isPeace);
    this.#progress = new ProgressChecker(world, judge, { ...given, isSimple });
    this.#losses = new LossChecker(world, judge, { timing: config.timing, isSimple: isAlone && isSimple });
    this.#budgets = new BudgetChecker(world, judge, given);
    this.#blames = new BlameChecker(judge, config.failure, {
      isWide: isWide(faults),
      areKills: isAlone && areKills(faults),
    });
    this.#deaf = new DeafChecker(judge, scenario, () => this.end !== null);
    this.#facts = new FactChecker(judge, config);
    this.#tellings = new ToldChecker(judge);
    const memory = new MemoryChecker(judge);
    const shards = new ShardChecker(judge);
    const positions = new PositionChecker(judge, config.batch);
    this.#progress.whenCalm(() => this.#checkWhole(world));
    this.#journal = new JournalModel(judge, config, {
      logic,
      seesOrders: true,
      onFacts: (facts) => this.#tellings.recorded(facts),
      onDecision: (decision) => {
        this.#weights.decided(decision);
        this.#training.decided(decision);
        memory.decided(decision);
        this.#members.decided(decision, world.nowMs);
        this.#orders.decided(decision);
        this.#fleet.decided(decision);
        this.#devices.decided(decision.before, decision.after);
        this.#ranks.decided(decision.before, decision.after);
        this.#progress.decided(decision);
        this.#losses.decided(decision);
        this.#budgets.decided(decision);
        this.#blames.decided(decision);
        this.#checkpoints?.decided(decision);
        shards.decided(decision);
        positions.decided(decision);
      },
    });
  }

  get jobState(): ControllerState {
    return this.#journal.state;
  }

  get losses(): LossChecker["longest"] {
    return this.#losses.longest;
  }

  /** The longest time without progress after the faults. */
  get longestMs(): number {
    return this.#progress.longestMs;
  }

  /** The disk exists only once the cluster does. */
  watchDisk(disk: SimDisk): void {
    const now = { graceMs: this.#graceMs, wallMs: () => disk.nowMs };
    this.#leftovers = new LeftoverChecker(this.#judge, disk.fs, now);
    this.#checkpoints = new CheckpointChecker(
      this.#judge,
      { fs: disk.fs, durable: () => disk.durableCopy() },
      (state) => this.#weights.isCommitted(state),
    );
  }

  /** What can be said only when everything is over. */
  async conclude(): Promise<void> {
    await this.#checkpoints?.verifyAtEnd();
    this.#progress.conclude();
    if (this.end?.outcome === "done") this.#progress.ended(this.#journal.state);
  }

  readonly engines: ClusterObserver["engines"] = {
    restored: (process, state) => this.#weights.restored(process, state),
    learning: (process, sample) => this.#training.learning(process, sample),
    begun: (process, live) => this.#members.begun(process, live),
    promoting: (process, candidate) => this.#weights.promoting(process, candidate),
    drawing: (process, requests) => {
      if (!process.isDead)
        this.#orders.begins(
          process,
          requests.map(({ requestId }) => requestId),
        );
    },
    killedBy: ({ requestId, promptIds }, version, { signal }) =>
      this.#orders.killedBy({ requestId, promptIds, version, isCrash: signal !== "SIGKILL" }),
    endedBy: (process, sample) => {
      const group = this.#training.groupOf(sample);
      this.#judge.note(`${process.name} ends over a sample of group ${group}`);
      this.#orders.endedBy(group, { isCrash: process.signal !== "SIGKILL" });
    },
    hungBy: ({ requestId }, process) => {
      this.#judge.note(`${process.name} hangs over ${requestId}`);
      this.#orders.hungBy(requestId);
    },
    serving: (process, version, weights) => {
      if (process.isDead) return;
      this.#weights.serving(process, version, weights);
      this.#training.serving(process, version, ownDigest(weights));
    },
  };

  stored(message: StoredMessage): void {
    const { stream, seq, subject, data, by } = message;
    this.#judge.note(`${by.name} > ${stream} ${seq} ${kindOfSubject(subject)}`);
    this.#judge.hash(data);
    if (stream === "journal") {
      this.#progress.acted();
      this.#journal.stored(message);
      return;
    }
    const envelope = readPlain(data) as Envelope;
    const flaw = flawOf(envelope.kind, envelope.body) ?? unsaidIn(envelope);
    this.#judge.require(flaw === null, "S34", () => `${by.name} says what no receiver takes: ${flaw}`);
    if (stream === "commands") this.#journal.command(envelope, subject.split(".")[3] ?? "", by);
    if (stream === "events") this.#fact(envelope);
    this.#said(envelope, seq, by);
  }

  purged({ stream, beforeSeq, by }: Parameters<NonNullable<ClusterObserver["purged"]>>[0]): void {
    this.#judge.note(`${by.name} purges ${stream} before ${beforeSeq}`);
    if (stream === "journal") this.#journal.purged(beforeSeq);
  }

  failed(error: unknown): void {
    throw error;
  }

  accepted({ subject, data, by }: HeardMessage): void {
    const message = envelopeOf(data);
    this.#judge.require(message !== null, "S34", () => `${by.name} took in what is no message, on ${subject}`);
    if (message) this.#members.accepted(message, subject, by);
  }

  joined(process: SimProcess, at: Parameters<ClusterObserver["joined"]>[1]): void {
    this.#members.joined(process, at);
  }

  reducing(process: SimProcess, at: Parameters<ClusterObserver["reducing"]>[1]): void {
    if (!process.isDead) this.#members.reducing(process, at);
  }

  identified(identity: Identity, process: SimProcess): void {
    this.#judge.note(`${process.name} is ${identity.incarnation}`);
    this.#members.identified(identity, process, process.world.nowMs);
    this.#orders.identified(process);
    this.#losses.identified(identity.incarnation, process);
    this.#blames.identified(identity.incarnation, process);
  }

  started(process: SimProcess): void {
    this.#judge.note(`${process.name} starts`);
    this.#progress.started(process);
  }

  ended(process: SimProcess, how: string): void {
    this.#judge.note(`${process.name} ends: ${how}`);
    this.#isCutNamed ||= process.role === "controller" && isCut(how);
  }

  bore(...[node, child, devices, rank]: Parameters<ClusterObserver["bore"]>): void {
    this.#fleet.bore(node, child);
    this.#devices.bore(child, devices);
    if (rank) this.#members.bore(child, rank);
    if (rank) this.#ranks.began(child, { ...rank, node: node.node }, this.#journal.state);
  }

  together(processes: readonly SimProcess[]): void {
    const [first] = processes;
    if (first) for (const each of processes) this.#members.bore(each, { replica: first.name, life: 0 });
  }

  termBegan(process: SimProcess, controller: Controller): void {
    this.#journal.termBegan(process, controller);
  }

  injected(name: string, process: SimProcess | null): void {
    this.#judge.note(`fault ${name}${process ? ` at ${process.name}` : ""}`);
    this.faults.set(name, (this.faults.get(name) ?? 0) + 1);
    if (process) this.#blames.struck(process);
    if (name === "stick" && process) this.#deaf.stuck(process);
    if (name === "power-loss") void this.#checkpoints?.verifyAfterPowerLoss();
  }

  lost(stream: string, messages: number): void {
    this.#judge.note(`${messages} messages at the end of ${stream} are lost`);
    this.#isCut ||= stream === "journal" && messages > 0;
    if (stream === "events" && messages > 0) this.#facts.cut();
  }

  /** True when the journal has lost its end: then the controller ends, and says so. */
  get isCut(): boolean {
    return this.#isCut;
  }

  /** True once a controller has ended because the journal is shorter than it was. */
  get isCutNamed(): boolean {
    return this.#isCutNamed;
  }

  lied(id: string, what: string, incarnation?: string): void {
    this.#judge.note(`${id} lies: ${what}`);
    if (incarnation !== undefined) this.#members.invented(incarnation);
  }

  damaged(path: string): void {
    this.#judge.note(`${path} rots`);
    this.#checkpoints?.damaged(path);
    this.#leftovers?.damaged(path);
  }

  /**
   * True when the job could not but fail: faults have damaged all that it could go back to, its batches overflow, there and back again, or so much
   * was given up as its ceiling does not allow.
   */
  get isHopeless(): boolean {
    const { state } = this.#journal;
    const { plan, nonFiniteInRow, wentBackAt, ledger } = state;
    const { nonFinite, abortShareMax, abortWindow } = plan.failure;
    const isNeverFinite = wentBackAt !== null && nonFiniteInRow >= nonFinite.attempts;
    const isOverCeiling = abortShareMax < 1 && ledger.aborted + ledger.quarantined > abortShareMax * abortWindow;
    return (this.#overflows && isNeverFinite) || isOverCeiling || (this.#checkpoints?.isAllDamaged(state) ?? false);
  }

  /** Whoever lives is a member, and as many are as are wanted. Who has to wait is waited for once: nobody may be evicted any more. */
  #checkWhole(world: World, mayWait = true): void {
    const { state } = this.#journal;
    const dueMs = this.#members.checkAdmitted(state, world.nowMs, mayWait);
    if (dueMs > 0) world.after(dueMs, () => this.#checkWhole(world, false));
    else this.#fleet.checkWhole(state);
  }

  #fact(message: Envelope): void {
    if (this.#told.has(message.id)) return;
    this.#told.add(message.id);
    // What a controller says of itself comes from no record. A journal that lost its end gives its sequences, and so the ids, again.
    if (/^e\d+\./.test(message.id) && !this.#isCut) this.#tellings.told(message.id);
    this.#facts.take(message as PublicFact);
  }

  #said(message: Envelope, seq: number, by: SimProcess): void {
    const line = lineOf(message);
    if (line !== null) this.#judge.note(line);
    this.#orders.told(by, message);
    const stored = this.#pieces.bodyOf(message, seq);
    if (stored?.kind === "groups.batch") this.#training.stored(stored.body, seq, by);
    else if (stored?.kind === "groups.begun") this.#training.begun(stored.body, by);
    else if (message.kind === "weights.held") this.#weights.held(message.body, message.incarnation);
    else if (message.kind === "checkpoint.saved") {
      void this.#checkpoints?.saved(message.body);
      void this.#leftovers?.saved(message.body);
    } else if (message.kind === "node.ready") this.#fleet.ready(by);
    else if (message.kind === "command.done") this.#fleet.done(message.body.commandId, message.body.outcome);
    else if (message.kind === "job.ended") this.end = message.body;
  }
}

function envelopeOf(data: Uint8Array): Envelope | null {
  try {
    const message: unknown = readPlain(data);
    return typeof message === "object" && message !== null && "kind" in message ? (message as Envelope) : null;
  } catch {
    return null;
  }
}

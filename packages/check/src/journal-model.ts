/**
 * The checkers' own controller: the fold of the journal as it lies on the broker, from its bytes. Whoever else wants to know what was
 * decided asks this model, never a live controller.
 */
import {
  type Announcement,
  type Controller,
  type ControllerLogic,
  decodeRecord,
  decodeSnapshot,
  type MachineEffect,
  OpenEndKeeper,
  PartCollector,
  type SnapshotContent,
  type SnapshotPart,
} from "@muster/actors/controller";
import {
  type ControllerEffect,
  type ControllerEvent,
  type ControllerState,
  controllerLogic,
  controllerSnapshotOf,
  imbalanceOf,
  ledgerOf,
  planOf,
} from "@muster/machines/controller";
import type { AnyMessage, JobConfig } from "@muster/protocol";
import { Intents } from "./intents.ts";
import type { Judge } from "./judge.ts";
import type { Observed } from "./observed.ts";

/** One decision: the state before and after one input. */
export interface Decision {
  readonly event: ControllerEvent;
  readonly before: ControllerState;
  readonly after: ControllerState;
  readonly effects: readonly ControllerEffect[];
}

/** A snapshot of the journal. */
export interface WholeSnapshot {
  /** Its first record. */
  readonly firstSeq: number;
  readonly term: number;
  readonly content: SnapshotContent;
}

/** Every so many records the live state is compared with the fold; in a large job, where it is long, once for so many members. */
const compareEvery = 8;
const compareMembers = 8;

/** Every tick that leaves a record must come to something soon: a state that time alone changes again and again fills the journal. */
const idleMax = 8;

/** Checks S1, S2, S4 and S15, and tells others of each decision. */
export class JournalModel {
  readonly #judge: Judge;
  readonly #logic: ControllerLogic;
  readonly #onDecision: (decision: Decision) => void;
  readonly #onFacts: (facts: readonly Announcement[]) => void;
  readonly #seesOrders: boolean;
  readonly #controllers = new Map<Observed, Controller>();
  readonly #writers = new Map<number, Observed>();
  readonly #intents = new Intents();
  #snapshot: ReturnType<ControllerLogic["init"]>["snapshot"];
  #ends = new OpenEndKeeper();
  readonly #parts = new PartCollector();
  /** First record of the newest whole snapshot. */
  #snapshotSeq = 0;
  #seq = 0;
  #comparedSeq = 0;
  #term = 0;
  /** Records in a row that ticks alone have caused, and that led to nothing. */
  #idle = 0;

  constructor(
    judge: Judge,
    config: JobConfig,
    given: {
      readonly logic?: ControllerLogic | undefined;
      readonly onDecision: (decision: Decision) => void;
      /** Hears of the public facts of each record. */
      readonly onFacts?: (facts: readonly Announcement[]) => void;
      /** Orders are shown, too: what the journal led to is remembered. */
      readonly seesOrders?: boolean;
    },
  ) {
    this.#judge = judge;
    this.#logic = given.logic ?? controllerLogic;
    this.#onDecision = given.onDecision;
    this.#onFacts = given.onFacts ?? (() => {});
    this.#seesOrders = given.seesOrders ?? false;
    const { snapshot, effects } = this.#logic.init(planOf(config));
    this.#snapshot = snapshot;
    this.#ends.begun(effects);
  }

  get state(): ControllerState {
    return this.#snapshot.context.state;
  }

  /** What came before is not there: the model goes on from a snapshot, which ends with record `seq`. */
  restore(seq: number, { firstSeq, term, content }: WholeSnapshot): void {
    this.#snapshot = controllerSnapshotOf(content);
    this.#ends = new OpenEndKeeper(content);
    this.#snapshotSeq = firstSeq;
    this.#seq = seq;
    this.#term = term;
    this.#idle = 0;
  }

  /** A record is of nobody: it counts for nothing but its place. */
  passed(seq: number): void {
    this.#seq = seq;
  }

  /** A controller acts; its live state can be compared. */
  termBegan(process: Observed, controller: Controller): void {
    this.#controllers.set(process, controller);
  }

  /** A record was stored. */
  stored({ seq, data, by }: { readonly seq: number; readonly data: Uint8Array; readonly by: Observed }): void {
    const judge = this.#judge;
    const { term, events, wallMs, told, part } = decodeRecord(seq, data);
    judge.require(seq === this.#seq + 1, "S2", () => `record ${seq} follows record ${this.#seq}`);
    judge.require(term >= this.#term, "S2", () => `record ${seq} of term ${term} follows term ${this.#term}`);
    this.#claim(term, by, `record ${seq}`);
    this.#seq = seq;
    this.#term = term;
    if (part) {
      this.#written(seq, part);
      return;
    }
    const since = this.state.nowMs;
    const ledTo = events.map((event) => this.#apply(event));
    this.#onFacts(this.#ends.recorded({ seq, wallMs, told }, ledTo.flat()));
    const cameTo = events.map(({ type }, i) => (ledTo[i] ?? []).length > 0 || type !== "controller.tick");
    // While somebody may hang the time itself is kept now and then.
    const { progress, nowMs, plan } = this.state;
    const isTimeKept = !progress.isShort && nowMs - since >= plan.timing.commandMs;
    this.#idle = cameTo.includes(true) ? 0 : this.#idle + (isTimeKept ? 0 : 1);
    judge.require(
      this.#idle <= idleMax,
      "rest",
      () => `the last ${this.#idle} records of the journal are of ticks that led to nothing`,
    );
    if (seq - this.#comparedSeq >= Math.max(compareEvery, this.state.joins / compareMembers)) this.#compare(by, seq);
  }

  /** Records were removed: a whole snapshot must stand in for them. */
  purged(beforeSeq: number): void {
    const newest = this.#snapshotSeq;
    this.#judge.require(
      beforeSeq <= newest,
      "S2",
      () => `records before ${beforeSeq} were removed, and the newest whole snapshot is record ${newest}`,
    );
  }

  /** A part of a snapshot was stored: the whole must be what the records before it come to. */
  #written(seq: number, part: SnapshotPart): void {
    const bytes = this.#parts.take(seq, part);
    if (!bytes) return;
    this.#snapshotSeq = part.firstSeq;
    const { rules: _, ...content } = decodeSnapshot(part.firstSeq, bytes);
    const found = JSON.stringify(content);
    const wanted = JSON.stringify({ ...this.#snapshot.context, ...this.#ends.get() });
    this.#judge.require(
      found === wanted,
      "S4",
      () => `the snapshot of record ${part.firstSeq} is not what the records before it come to`,
    );
  }

  /** An order was sent: the journal must have led to it. */
  command(message: AnyMessage & { readonly to?: string | undefined }, to: string, by: Observed): void {
    const { kind, body, term } = message;
    this.#claim(term, by, `order ${kind}`);
    this.#judge.require(
      this.#intents.has({ to, incarnation: message.to ?? "", kind, body }),
      "S4",
      () => `order ${kind} to ${to} was sent before the journal led to it`,
    );
  }

  #apply(event: ControllerEvent): readonly MachineEffect[] {
    const before = this.state;
    const step = this.#logic.step(this.#snapshot, event);
    this.#snapshot = step.snapshot;
    const effects = step.effects as readonly ControllerEffect[];
    for (const effect of this.#seesOrders ? effects : []) {
      if (effect.type === "command") this.#intents.add(effect);
      if (effect.type === "admit") this.#intents.add({ ...effect, kind: "replica.registered", body: null });
    }
    const imbalance = imbalanceOf(ledgerOf(this.state));
    this.#judge.require(imbalance === 0, "S15", () => `after ${event.type} the ledger is off by ${imbalance}`);
    this.#onDecision({ event, before, after: this.state, effects });
    return step.effects;
  }

  /** One actor a term: whoever says something in a term is its only one. */
  #claim(term: number, by: Observed, what: string): void {
    const owner = this.#writers.get(term) ?? by;
    this.#writers.set(term, owner);
    this.#judge.require(
      owner === by,
      "S1",
      () => `${what} of term ${term} is by ${by.name}, the term is ${owner.name}'s`,
    );
  }

  #compare(by: Observed, seq: number): void {
    this.#comparedSeq = seq;
    const live = this.#controllers.get(by)?.snapshot();
    if (!live || by.isDead) return;
    const isSame = JSON.stringify(live.context) === JSON.stringify(this.#snapshot.context);
    this.#judge.require(
      isSame,
      "S4",
      () => `after record ${seq} the live state of ${by.name} is not that of its journal`,
    );
  }
}

/** The journal as a new controller reads it: the newest whole snapshot, and the records after it through the controller's machine. */
import { type ControllerPlan, controllerLogic, controllerSnapshotOf, type Rules } from "@muster/machines/controller";
import type { Journal, JournalEntry } from "@muster/transport";
import { errors } from "../errors.ts";
import type { JournalRecord } from "./journal-record.ts";
import { decodeSnapshot, PartCollector } from "./journal-snapshot.ts";
import { type MachineEffect, OpenEndKeeper, type OpenEnds } from "./open-ends.ts";
import { RecordChain } from "./record-chain.ts";

/** The logic of a controller. */
export type ControllerLogic = Pick<typeof controllerLogic, "id" | "init" | "step">;

/** Snapshot of the controller's machine. */
export type ControllerSnapshot = ReturnType<typeof controllerLogic.init>["snapshot"];

/** What a replay gives: where to go on. */
export interface Replayed extends OpenEnds {
  readonly snapshot: ControllerSnapshot;
  readonly term: number;
  /** Sequence of the last record, of whomever. */
  readonly seq: number;
  /** Its id; empty when it has none. */
  readonly lastId: string;
  /** Where the next record goes on from, and what was passed over. */
  readonly chain: RecordChain;
  /** Records of controllers that were read. */
  readonly records: number;
  /** First record that is still there; 0 when there is none. */
  readonly firstSeq: number;
  /** First record of the newest whole snapshot, or `null`. */
  readonly snapshotSeq: number | null;
  /** Records of inputs after the newest snapshot, and their bytes. */
  readonly since: { readonly records: number; readonly bytes: number };
}

/** An acting controller may remove records while they are read; the next reading begins at its snapshot. */
const readingsMax = 5;

/**
 * Folds the journal. No effect of the past is performed; timers that would still run are kept.
 *
 * With `rules`, those of this program, only what was decided by the same rules is folded: whoever goes on from it must come to what was acted
 * on. A snapshot is data, whoever wrote it. Without them everything is folded, for who only looks.
 *
 * What somebody else wrote into the journal counts for nothing.
 *
 * @throws MUSTER_ERR_JOURNAL_MALFORMED, MUSTER_ERR_JOURNAL_VERSION
 * @throws MUSTER_ERR_JOURNAL_HEADLESS when its beginning is gone and no whole snapshot stands in for it.
 * @throws MUSTER_ERR_JOURNAL_OTHER_RULES when records after the newest whole snapshot, or all, were decided by other rules.
 */
export async function replayJournal(
  journal: Journal,
  plan: ControllerPlan,
  logic: ControllerLogic = controllerLogic,
  rules?: Rules,
): Promise<Replayed> {
  for (let reading = 1; ; reading++) {
    const fold = new Fold(plan, logic, rules);
    for await (const entry of journal.read(1)) fold.take(entry);
    const replayed = fold.get();
    const isEmpty = replayed.seq === 0;
    const head = isEmpty ? await journal.head() : 0;
    if (fold.isWhole && head === 0) {
      fold.requireOwnRules();
      return replayed;
    }
    if (reading === readingsMax) throw errors.JournalHeadless({ first: replayed.firstSeq || head + 1 });
  }
}

class Fold {
  /** False from a gap on until a whole snapshot stands in for what was in it. */
  isWhole = true;
  readonly #logic: ControllerLogic;
  readonly #own: Rules | undefined;
  /** Rules of the writer of the present records, as far as it said them. */
  #rules: Rules | undefined;
  /** Records after the newest whole snapshot that were not folded, because other rules begin there. */
  #foreign: { readonly first: number; readonly rules: Rules | undefined } | null = null;
  readonly #parts = new PartCollector();
  #snapshot: ControllerSnapshot;
  #ends = new OpenEndKeeper();
  readonly #chain = new RecordChain();
  #term = 0;
  #seq = 0;
  #lastId = "";
  #records = 0;
  #firstSeq = 0;
  #snapshotSeq: number | null = null;
  #since = { records: 0, bytes: 0 };

  constructor(plan: ControllerPlan, logic: ControllerLogic, own: Rules | undefined) {
    const { snapshot, effects } = logic.init(plan);
    this.#logic = logic;
    this.#own = own;
    this.#snapshot = snapshot;
    this.#ends.begun(effects);
  }

  take({ seq, data, msgId }: JournalEntry): void {
    if (seq !== this.#seq + 1) this.isWhole = false;
    this.#firstSeq ||= seq;
    this.#seq = seq;
    this.#lastId = msgId;
    const record = this.#chain.take(seq, data);
    if (!record) return;
    this.#records += 1;
    this.#term = Math.max(this.#term, record.term);
    if (record.part) this.#restore(seq, record.part);
    else this.#step(seq, record, data.byteLength);
  }

  #restore(seq: number, part: NonNullable<JournalRecord["part"]>): void {
    const bytes = this.#parts.take(seq, part);
    if (!bytes) return;
    const content = decodeSnapshot(part.firstSeq, bytes);
    this.#snapshot = controllerSnapshotOf(content);
    this.#ends = new OpenEndKeeper(content);
    this.#snapshotSeq = part.firstSeq;
    this.#rules = content.rules;
    this.#foreign = null;
    this.#since = { records: 0, bytes: 0 };
    this.isWhole = true;
  }

  #step(seq: number, { events, wallMs, told }: JournalRecord, bytes: number): void {
    this.#since = { records: this.#since.records + 1, bytes: this.#since.bytes + bytes };
    const elected = events.find(({ type }) => type === "controller.elected");
    if (elected?.type === "controller.elected") this.#rules = elected.rules;
    if (this.#own && this.#own.digest !== this.#rules?.digest) this.#foreign ??= { first: seq, rules: this.#rules };
    if (!this.isWhole || this.#foreign) return;
    const effects: MachineEffect[] = [];
    for (const event of events) {
      const step = this.#logic.step(this.#snapshot, event);
      this.#snapshot = step.snapshot;
      effects.push(...step.effects);
    }
    this.#ends.recorded({ seq, wallMs, told }, effects);
  }

  requireOwnRules(): void {
    if (!this.#foreign || !this.#own) return;
    const { first, rules } = this.#foreign;
    const records = first === this.#seq ? `record ${first}` : `records ${first} to ${this.#seq}`;
    const found = rules ? textOf(rules) : "a version of Muster that did not say its rules";
    throw errors.JournalOtherRules({ records, found, own: textOf(this.#own) });
  }

  get(): Replayed {
    return {
      snapshot: this.#snapshot,
      ...this.#ends.get(),
      term: this.#term,
      chain: this.#chain,
      seq: this.#seq,
      lastId: this.#lastId,
      records: this.#records,
      firstSeq: this.#firstSeq,
      snapshotSeq: this.#snapshotSeq,
      since: this.#since,
    };
  }
}

function textOf({ build, digest }: Rules): string {
  return `Muster ${build} with rules ${digest}`;
}

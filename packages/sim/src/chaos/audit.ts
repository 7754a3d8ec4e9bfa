/**
 * Reads the journal of a real run as it grows, because the controller removes what its snapshots cover, and gives it to the simulator's
 * checkers: terms and sequences, the ledger at every record, votes before commits, one digest per version, nobody back from the dead,
 * snapshots that are what the records before them come to.
 */
import { join } from "node:path";
import { decodeRecord } from "@muster/actors";
import { messageOf } from "@muster/base";
import type { JobConfig } from "@muster/protocol";
import { connectNats, startLocalServer, type Transport } from "@muster/transport";
import { type Decision, JournalModel } from "../check/journal-model.ts";
import { Judge, type Violation } from "../check/judge.ts";
import { MembershipChecker } from "../check/membership-checker.ts";
import type { Observed } from "../check/observed.ts";
import { WeightsChecker } from "../check/weights-checker.ts";
import { brokerPortOf, userOf } from "./follow.ts";

/** What the journal says. */
export interface Audit {
  readonly records: number;
  readonly terms: number;
  readonly commits: number;
  readonly violations: readonly Violation[];
  /** True when in every committed step all votes had one digest, and nobody ever said to hold a version with another. */
  readonly replicasBitwiseEqual: boolean;
}

/** Which run to audit. */
export interface AuditOptions {
  readonly directory: string;
  readonly config: JobConfig;
  readonly binary: string;
}

/** An audit that reads along. */
export interface RunningAudit {
  /** Reads what is left of the journal, once the run and its broker have ended, and judges. */
  finish(): Promise<Audit>;
  close(): Promise<void>;
}

/** Begins to audit the run in `directory`, whose broker runs. */
export async function startAudit(options: AuditOptions): Promise<RunningAudit> {
  const { directory, config } = options;
  const auditor = new JournalAuditor(config);
  const transport = await connect(options, `nats://127.0.0.1:${brokerPortOf(directory) ?? 0}`);
  const { close } = await transport.tail({
    stream: "journal",
    fromSeq: 1,
    handle: ({ seq, data }) => auditor.take(seq, data),
  });
  const end = async (): Promise<void> => {
    await close();
    await transport.close();
  };
  return {
    async finish() {
      await end();
      await readRest(options, auditor);
      return auditor.audit();
    },
    close: end,
  };
}

async function readRest(options: AuditOptions, auditor: JournalAuditor): Promise<void> {
  const { directory, config, binary } = options;
  const server = await startLocalServer({ binary, directory: join(directory, "nats"), job: config.job });
  try {
    const transport = await connect(options, server.url);
    try {
      for await (const { seq, data } of transport.journal().read(auditor.nextSeq)) auditor.take(seq, data);
    } finally {
      await transport.close();
    }
  } finally {
    await server.stop();
  }
}

async function connect({ directory, config: { job } }: AuditOptions, url: string): Promise<Transport> {
  const credentials = userOf(directory, "controller");
  if (!credentials) throw new Error(`${directory} has no user of the controller`);
  return await connectNats({ url, job, credentials, name: "controller.audit.0", connectTimeoutMs: 10_000 });
}

/** Feeds the checkers with what a journal holds. */
export class JournalAuditor {
  /** The record that comes next. */
  nextSeq = 1;
  /** What the audit itself could not do; nothing is judged after it. */
  #failure: string | null = null;
  readonly #time = { nowMs: 0 };
  readonly #judge = new Judge(this.#time);
  readonly #weights: WeightsChecker;
  readonly #members = new MembershipChecker(this.#judge, Number.POSITIVE_INFINITY);
  readonly #journal: JournalModel;
  readonly #reigns = new Map<number, Observed>();
  readonly #votes = new Map<string, Set<string>>();
  #records = 0;
  #commits = 0;
  #isEqual = true;

  constructor(config: JobConfig) {
    this.#weights = new WeightsChecker(this.#judge, config, { count: 0 });
    this.#journal = new JournalModel(this.#judge, config, {
      logic: undefined,
      onDecision: (decision) => this.#decided(decision),
    });
  }

  /** Takes the next record. One that was taken before counts for nothing, one that is missing ends the audit. */
  take(seq: number, data: Uint8Array): void {
    if (seq < this.nextSeq || this.#failure !== null) return;
    if (seq > this.nextSeq) {
      this.#failure = `records ${this.nextSeq} to ${seq - 1} of the journal were removed before they were read`;
      return;
    }
    this.nextSeq = seq + 1;
    try {
      this.#record(seq, data);
    } catch (error) {
      this.#failure = messageOf(error);
    }
  }

  #record(seq: number, data: Uint8Array): void {
    const { term, events } = decodeRecord(seq, data);
    const by = this.#reigns.get(term) ?? lifeOf(`controller of term ${term}`, "controller");
    this.#reigns.set(term, by);
    this.#time.nowMs = events[0]?.atMs ?? this.#time.nowMs;
    for (const event of events) {
      if (event.type === "replica.register")
        this.#members.identified(
          { job: "", id: event.from, role: event.role, incarnation: event.incarnation },
          lifeOf(event.incarnation, event.role),
        );
    }
    this.#journal.stored({ seq, data, by });
    this.#records += 1;
  }

  audit(): Audit {
    const [detail, { nowMs: atMs }] = [this.#failure, this.#time];
    const failed = detail === null ? [] : [{ invariant: "audit", detail, atMs }];
    const violations = [...this.#judge.violations, ...failed];
    return {
      records: this.#records,
      terms: this.#reigns.size,
      commits: this.#commits,
      violations,
      replicasBitwiseEqual: this.#isEqual && !violations.some(({ invariant }) => invariant === "S10"),
    };
  }

  #decided(decision: Decision): void {
    const held = heldOf(decision);
    if (held) this.#weights.held(held.body, held.incarnation);
    this.#weights.decided(decision);
    this.#members.decided(decision);
    const { event, before, after } = decision;
    if (event.type === "step.voted" && event.body.vote === "commit") {
      const key = `${before.weights?.lineage}/${event.body.step}/${event.body.attempt}`;
      const digests = this.#votes.get(key) ?? new Set<string>();
      this.#votes.set(key, digests.add(JSON.stringify(event.body.sections)));
    }
    if (!after.weights || !before.weights || after.weights.version <= before.weights.version) return;
    this.#commits += 1;
    const key = `${before.weights.lineage}/${before.step.step}/${before.step.attempt}`;
    if ((this.#votes.get(key)?.size ?? 0) !== 1) this.#isEqual = false;
  }
}

/** What the audit asks of a controller's state. */
interface Seen extends Pick<Decision["before"], "dropped"> {
  readonly members: Readonly<Record<string, { readonly incarnation: string }>>;
}

/**
 * What a replica says to hold, when the controller took it for news. A report that the broker delivers again to the next controller says
 * nothing of what the replica holds now: after newer ones it is dropped there, after the replica's end it is a stranger's. Pure.
 */
export function heldOf({ event, before, after }: Pick<Decision, "event"> & Record<"before" | "after", Seen>) {
  if (event.type !== "weights.held") return null;
  const isMember = before.members[event.from]?.incarnation === event.incarnation;
  return isMember && after.dropped.stale === before.dropped.stale ? event : null;
}

function lifeOf(name: string, role: string): Observed {
  return { name, node: name, role, isDead: false };
}

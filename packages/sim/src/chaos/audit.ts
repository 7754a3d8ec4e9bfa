/**
 * Reads the journal of a real run back from its broker's store, after the run, and gives it to the simulator's checkers: terms and
 * sequences, the ledger at every record, votes before commits, one digest per version, nobody back from the dead.
 */
import { join } from "node:path";
import { decodeRecord } from "@muster/actors";
import type { JobConfig } from "@muster/protocol";
import { connectNats, startLocalServer } from "@muster/transport";
import { type Decision, JournalModel } from "../check/journal-model.ts";
import { Judge, type Violation } from "../check/judge.ts";
import { MembershipChecker } from "../check/membership-checker.ts";
import type { Observed } from "../check/observed.ts";
import { WeightsChecker } from "../check/weights-checker.ts";
import { usersOf } from "./follow.ts";

/** What the journal says. */
export interface Audit {
  readonly records: number;
  readonly terms: number;
  readonly commits: number;
  readonly violations: readonly Violation[];
  /** True when in every committed step all votes had one digest, and nobody ever said to hold a version with another. */
  readonly replicasBitwiseEqual: boolean;
}

/** Audits the journal of the run in `directory`, whose broker has ended. */
export async function auditJournal(options: {
  readonly directory: string;
  readonly config: JobConfig;
  readonly binary: string;
}): Promise<Audit> {
  const { directory, config, binary } = options;
  const server = await startLocalServer({ binary, directory: join(directory, "nats"), job: config.job });
  try {
    const credentials = usersOf(directory).controller;
    if (!credentials) throw new Error(`${directory} has no user of the controller`);
    const transport = await connectNats({
      url: server.url,
      job: config.job,
      credentials,
      name: "controller.audit.0",
      connectTimeoutMs: 10_000,
    });
    try {
      const auditor = new Auditor(config);
      for await (const { seq, data } of transport.journal().read(1)) auditor.record(seq, data);
      return auditor.audit();
    } finally {
      await transport.close();
    }
  } finally {
    await server.stop();
  }
}

/** Feeds the checkers with what a journal holds. */
class Auditor {
  readonly #time = { nowMs: 0 };
  readonly #judge = new Judge(this.#time);
  readonly #weights: WeightsChecker;
  readonly #members = new MembershipChecker(this.#judge, false);
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

  record(seq: number, data: Uint8Array): void {
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
    const violations = this.#judge.violations;
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

/** Compares a run with faults and a quiet one, step by step, and reads from the events what a job promises. Pure. */
import type { Body, Ledger } from "@muster/protocol";
import type { HeardEvent } from "./follow.ts";

/** What the events of one run say of its training. */
export interface Training {
  /** Last committed step. */
  readonly steps: number;
  /** Digests of weights and optimizer by step, of the last time that it was committed. */
  readonly digests: ReadonlyMap<number, string>;
  /** Steps that were committed with other digests in another lineage; none in a deterministic run. */
  readonly contradictions: readonly number[];
  /** Groups that were trained twice in one lineage. */
  readonly doubled: number;
  readonly ledger: Ledger | null;
  readonly ended: Body<"job.ended"> | null;
  /** Time between the first and the last commit. */
  readonly spanMs: number;
}

/** Reads the training of a run from its events. */
export function trainingOf(events: readonly HeardEvent[]): Training {
  const digests = new Map<number, string>();
  const trained = new Set<string>();
  const contradictions: number[] = [];
  let doubled = 0;
  let ended: Body<"job.ended"> | null = null;
  let ledger: Ledger | null = null;
  const commits = events.filter(({ kind }) => kind === "step.committed");
  for (const { kind, body } of events) {
    if (kind === "job.ended") ended = body;
    if (kind !== "step.committed") continue;
    const digest = body.sections.map((section) => `${section.name}=${section.digest}`).join(" ");
    if ((digests.get(body.step) ?? digest) !== digest) contradictions.push(body.step);
    digests.set(body.step, digest);
    ledger = body.ledger;
    for (const group of body.groups) {
      const key = `${body.lineage}/${group}`;
      if (trained.has(key)) doubled += 1;
      trained.add(key);
    }
  }
  return {
    steps: Math.max(0, ...digests.keys()),
    digests,
    contradictions,
    doubled,
    ledger: ended?.ledger ?? ledger,
    ended,
    spanMs: (commits.at(-1)?.atMs ?? 0) - (commits[0]?.atMs ?? 0),
  };
}

/** The first step that both runs committed with different digests; `null` when there is none. */
export function firstDifference(one: Training, other: Training): number | null {
  const common = [...one.digests.keys()].filter((step) => other.digests.has(step)).sort((a, b) => a - b);
  return common.find((step) => one.digests.get(step) !== other.digests.get(step)) ?? null;
}

/** Digest of the weights at a step; empty when it was not committed. */
export function weightsHashAt({ digests }: Training, step: number): string {
  return /(?:^| )weights=(\S+)/.exec(digests.get(step) ?? "")?.[1] ?? "";
}

/** Trajectories that are in no column of the ledger. */
export function lostOf({ ledger }: Training): number {
  return ledger ? ledger.admitted - ledger.trained - ledger.aborted - ledger.quarantined - ledger.pending : 0;
}

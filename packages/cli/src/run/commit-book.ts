/** The commits of a job as far as anybody looks at them: the newest ones each, of older ones as many as a curve needs. Pure but for what it remembers. */
import type { Body } from "@muster/protocol";
import type { StepRecord } from "../report/index.ts";
import { standingOf } from "./standing.ts";
import { stepRecordOf, withSpeed } from "./step-record.ts";

/** A commit: what it did, and the job as it was then. */
export interface Commit extends Pick<Body<"step.committed">, "lineage" | "version" | "sections" | "ledger"> {
  record: Omit<StepRecord, "tokens_per_s">;
  /** Since the commit before; `null` while that one is there to tell. */
  readonly tokensPerS: number | null;
  /** Tokens of it and of those before it that are not here any more. */
  readonly tokens: number;
}

/** Newest commits, each of which is kept. */
const newestMax = 5_000;
/** Older ones. */
const olderMax = 5_000;
/** The first ones, too: a summary tells where the job began. */
const firstMax = 10;
/** Versions of replicas, over all commits, that are remembered. */
const heldMax = 200_000;

/** Gathers the commits of one run. */
export class CommitBook {
  #commits: Commit[] = [];
  /** Only older steps that are multiples of it are kept. */
  #stride = 1;
  #beginsAtMs = 0;

  /** The first commit is not the job's first one, and comes after this time of the job. */
  beginAt(atMs: number): void {
    this.#beginsAtMs = atMs;
  }

  add(body: Body<"step.committed">, atMs: number): void {
    const { lineage, version, sections, ledger, tokens } = body;
    this.#commits.push({
      lineage,
      version,
      sections,
      ledger,
      record: stepRecordOf(body, atMs),
      tokensPerS: null,
      tokens,
    });
    const held = Math.min(newestMax, Math.floor(heldMax / Math.max(1, body.held?.length ?? 0)));
    const old = this.#commits.at(-1 - Math.max(1, held));
    if (old) old.record = { ...old.record, held: null };
    if (this.#commits.length >= 2 * (newestMax + olderMax)) this.#thin();
  }

  /** Those that stand. */
  standing(ended: Body<"job.ended"> | null): readonly Commit[] {
    return withSpeeds(standingOf(this.#commits, ended), this.#beginsAtMs);
  }

  /** A commit that is left behind stays so, whatever comes. */
  #thin(): void {
    const standing = this.standing(null);
    const newest = standing.length - newestMax;
    const isKept = ({ record }: Commit, i: number): boolean =>
      i < firstMax || i >= newest || record.step % this.#stride === 0;
    while (standing.filter(isKept).length > newestMax + olderMax) this.#stride *= 2;
    let passed = 0;
    this.#commits = standing.flatMap((commit, i) => {
      const tokens = passed + commit.tokens;
      passed = isKept(commit, i) ? 0 : tokens;
      return isKept(commit, i) ? [{ ...commit, tokens }] : [];
    });
  }
}

function withSpeeds(standing: readonly Commit[], beginsAtMs: number): readonly Commit[] {
  return standing.map((commit, i) => {
    const { record, tokensPerS } = commit;
    const before = standing[i - 1]?.record.at_ms ?? beginsAtMs;
    return { ...commit, tokensPerS: tokensPerS ?? withSpeed(record, before).tokens_per_s };
  });
}

/** The commits that an audit compares with what else a run wrote: as many as it needs, not as many as there are. */
import type { Section } from "@muster/protocol";
import { digestsOf } from "../fact-checker.ts";

/** A commit, by whomever it is told. */
export interface CommitFact {
  readonly step: number;
  readonly lineage: number;
  readonly version: number;
  readonly sections: readonly Section[];
}

/** Where a commit stands. */
export type Point = Pick<CommitFact, "lineage" | "version">;

/** Before the first commit of a job, and after its last one. */
export const firstPoint: Point = { lineage: 0, version: 0 };
export const lastPoint: Point = { lineage: Number.POSITIVE_INFINITY, version: Number.POSITIVE_INFINITY };

/** Journals are bounded to far fewer. */
const commitsMax = 200_000;

/** Commits of the journal, by lineage and version. */
export class JournalCommits {
  /** True when every commit of the job is among them. */
  isWhole = false;
  readonly #digests = new Map<string, { readonly step: number; readonly digests: string }>();

  add({ step, sections, ...point }: CommitFact): void {
    if (this.#digests.size < commitsMax) this.#digests.set(keyOf(point), { step, digests: digestsOf(sections) });
  }

  /** Takes the commit that was told; what is never taken was not told. @returns What is wrong with it, or `null`. */
  take({ step, sections, ...point }: CommitFact): string | null {
    const known = this.#digests.get(keyOf(point));
    if (!known)
      return this.isWhole
        ? `step ${step} is committed as version ${point.version}, and the journal has no such commit`
        : null;
    this.#digests.delete(keyOf(point));
    const told = digestsOf(sections);
    if (known.step !== step)
      return `version ${point.version} is told as that of step ${step}, the journal has it for step ${known.step}`;
    return told === known.digests ? null : `step ${step} is committed with ${told}, the journal has ${known.digests}`;
  }

  /** Steps that were committed after the first of these points and before the second one, and not told. */
  untold(after: Point, before: Point): readonly number[] {
    return [...this.#digests].flatMap(([key, { step }]) => {
      const [lineage = 0, version = 0] = key.split(".").map(Number);
      const point = { lineage, version };
      return isBefore(after, point) && isBefore(point, before) ? [step] : [];
    });
  }
}

/**
 * Which commits of one file stand: one is left behind when a later lineage has a commit of its version or of an earlier one, or when the job ended
 * in a later lineage before it.
 */
export class Standing {
  readonly #firsts = new Map<number, number>();
  #ended: Point | null = null;

  committed({ lineage, version }: Point): void {
    this.#firsts.set(lineage, Math.min(version, this.#firsts.get(lineage) ?? version));
  }

  ended({ lineage, version }: Point): void {
    this.#ended = { lineage, version };
  }

  /** True when the job is over. */
  get isEnded(): boolean {
    return this.#ended !== null;
  }

  has({ lineage, version }: Point): boolean {
    if (this.#ended && version > this.#ended.version) return false;
    for (const [later, first] of this.#firsts) if (later > lineage && version >= first) return false;
    return true;
  }
}

/** Digests of the versions that checkpoints are of. */
export class WantedVersions {
  readonly #wanted: ReadonlySet<number>;
  readonly #known = new Map<number, CommitFact[]>();

  constructor(versions: Iterable<number>) {
    this.#wanted = new Set(versions);
  }

  committed(commit: CommitFact): void {
    if (!this.#wanted.has(commit.version)) return;
    this.#known.set(commit.version, [...(this.#known.get(commit.version) ?? []), commit]);
  }

  /** The commit that made the version of a lineage: in it, or in the last one before it. */
  of({ lineage, version }: Point): CommitFact | null {
    const commits = (this.#known.get(version) ?? []).filter((commit) => commit.lineage <= lineage);
    return commits.reduce<CommitFact | null>((last, one) => (last && last.lineage > one.lineage ? last : one), null);
  }
}

/** A later lineage begins after all of those before it, with whatever version. */
function isBefore(a: Point, b: Point): boolean {
  return a.lineage === b.lineage ? a.version < b.version : a.lineage < b.lineage;
}

function keyOf({ lineage, version }: Point): string {
  return `${lineage}.${version}`;
}

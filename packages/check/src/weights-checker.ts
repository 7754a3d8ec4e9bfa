/** Which bytes are live where: one digest per version, nothing before its commit, nothing back in time (S9 – S11, S13, S22, S23, S28). */
import type { StateSections } from "@muster/engine";
import type { Body } from "@muster/protocol";
import { ownDigest } from "./digest.ts";
import type { Decision } from "./journal-model.ts";
import type { Judge } from "./judge.ts";
import type { Observed } from "./observed.ts";

const lineageUnit = 2 ** 32;

/** The digest of a whole section. Where it lies in shards that is the digest of their list. */
export type SectionDigest = (bytes: Uint8Array, section: "weights" | "optimizer") => string;

/** The model of weights. */
export class WeightsChecker {
  readonly #judge: Judge;
  /** What the replicas take for the digest of bytes. */
  readonly #digest: SectionDigest;
  /** Digest of the weights section, by `<lineage>.<version>`, as the journal has it. */
  readonly #committed = new Map<string, string>();
  /** Digest of weights and optimizer of every version that the journal has, and of what the job started with. */
  readonly #known = new Set<string>();
  readonly #bytes = new Map<string, string>();
  readonly #held = new Map<string, { readonly lineage: number; readonly version: number }>();

  constructor(
    judge: Judge,
    /** `start`: what the job begins with, where that is known. */
    { digest = ownDigest, start }: { readonly digest?: SectionDigest; readonly start?: StateSections } = {},
  ) {
    this.#judge = judge;
    this.#digest = digest;
    if (start) this.#known.add(this.#stateDigest(start));
  }

  /** A decision was journaled. */
  decided({ before, after }: Decision): void {
    const { weights } = after;
    if (!weights || weights === before.weights) return;
    const key = `${weights.lineage}.${weights.version}`;
    const digests = digestsOf(weights.sections);
    const known = this.#committed.get(key);
    this.#judge.require(
      known === undefined || known === digests,
      "S10",
      () => `version ${key} is committed as ${digests}, was ${known}`,
    );
    this.#committed.set(key, digests);
    if (!before.weights) this.#checkRestored(weights, digests);
    this.#known.add(digests);
  }

  /** A lineage begins with the very bytes that the last one had at that version. */
  #checkRestored({ lineage, version }: { readonly lineage: number; readonly version: number }, digests: string): void {
    for (let older = lineage - 1; older >= 0; older--) {
      const was = this.#committed.get(`${older}.${version}`);
      if (was === undefined) continue;
      this.#judge.require(
        was === digests,
        "S28",
        () => `lineage ${lineage} begins with ${digests}, version ${older}.${version} is ${was}`,
      );
      return;
    }
  }

  /** A replica says that it holds a version. */
  held(body: Body<"weights.held">, incarnation: string): void {
    const { lineage, version, sections } = body;
    const key = `${lineage}.${version}`;
    const committed = this.#committed.get(key);
    if (committed !== undefined) {
      const isSame = sections.every(({ digest }) => committed.split(" ").includes(digest));
      this.#judge.require(
        isSame,
        "S10",
        () => `${incarnation} holds ${key} as ${digestsOf(sections)}, not ${committed}`,
      );
    }
    const last = this.#held.get(incarnation);
    const isForward = !last || lineage > last.lineage || (lineage === last.lineage && version >= last.version);
    this.#judge.require(isForward, "S9", () => `${incarnation} holds ${key} after ${last?.lineage}.${last?.version}`);
    this.#held.set(incarnation, { lineage, version });
  }

  /** A rollout engine swaps these bytes in. */
  serving(process: Observed, engineVersion: number, weights: Uint8Array): void {
    const key = `${Math.floor(engineVersion / lineageUnit)}.${engineVersion % lineageUnit}`;
    const committed = this.#committed.get(key)?.split(" ")[0];
    const digest = this.#digest(weights, "weights");
    this.#judge.require(
      committed === digest,
      "S13",
      () => `${process.name} serves ${digest} as version ${key}, committed is ${committed}`,
    );
  }

  /** A policy engine takes these bytes as its state. */
  restored(process: Observed, state: StateSections): void {
    this.#judge.require(
      this.#known.has(this.#stateDigest(state)),
      "S28",
      () => `${process.name} restored ${this.#stateDigest(state)}, which nobody committed`,
    );
  }

  /** A policy engine is about to make its candidate live. */
  promoting(process: Observed, candidate: StateSections): void {
    const digests = this.#stateDigest(candidate);
    this.#judge.require(
      this.#known.has(digests),
      "S22",
      () => `${process.name} makes ${digests} live, which is not committed`,
    );
    const own = `${ownDigest(candidate.weights)} ${ownDigest(candidate.optimizer)}`;
    const seen = this.#bytes.get(digests) ?? own;
    this.#bytes.set(digests, seen);
    this.#judge.require(seen === own, "S11", () => `${process.name} has other bytes under the digest ${digests}`);
    const { buffer, byteOffset, byteLength } = candidate.weights;
    const areFinite = new Float32Array(buffer, byteOffset, byteLength / 4).every(Number.isFinite);
    this.#judge.require(areFinite, "S23", () => `${process.name} makes weights live that are not finite`);
  }

  /** True when a version with these sections was committed. */
  isCommitted(state: StateSections): boolean {
    return this.#known.has(this.#stateDigest(state));
  }

  #stateDigest({ weights, optimizer }: StateSections): string {
    return `${this.#digest(weights, "weights")} ${this.#digest(optimizer, "optimizer")}`;
  }
}

function digestsOf(sections: readonly { readonly name: string; readonly digest: string }[]): string {
  const of = (name: string): string => sections.find((section) => section.name === name)?.digest ?? "none";
  return `${of("weights")} ${of("optimizer")}`;
}

/**
 * What unfinished checkpoints leave in their folder (S39): once it is of no use it is gone after a few more checkpoints, so that a folder does not fill with
 * what the dead have begun. And a version that several wrote is sealed once (S25): of all that is visible there, one has its shards.
 */
import type { Judge } from "@muster/check/internal";
import { type CheckpointFs, verifyCheckpoint } from "@muster/checkpoint";
import { isLeftover, parseSet } from "@muster/checkpoint/internal";
import { type Body, parseCheckpointName } from "@muster/protocol";

/** Checkpoints that may become durable beside a leftover that could go: each of them may fail once to remove it. */
const patience = 3;

type Saved = Body<"checkpoint.saved">;

/** Looks at the folder whenever a checkpoint is reported durable. */
export class LeftoverChecker {
  readonly #judge: Judge;
  readonly #fs: CheckpointFs;
  readonly #now: { readonly graceMs: number; readonly wallMs: () => number };
  /** By name of a leftover that could go: paths of checkpoints that were reported durable since. */
  readonly #overdue = new Map<string, Set<string>>();
  readonly #damaged = new Set<string>();

  constructor(judge: Judge, fs: CheckpointFs, now: { readonly graceMs: number; readonly wallMs: () => number }) {
    this.#judge = judge;
    this.#fs = fs;
    this.#now = now;
  }

  /** A fault has damaged what lies in this folder. */
  damaged(path: string): void {
    this.#damaged.add(path);
  }

  /** A checkpoint actor says that a checkpoint is durable. */
  async saved(body: Saved): Promise<void> {
    const root = body.path.slice(0, body.path.lastIndexOf("/"));
    const names = await this.#fs.list(root).catch(() => []);
    await this.#checkLeftovers(root, names.filter(isLeftover), body);
    await this.#checkSealedOnce(root, names, body);
  }

  async #checkLeftovers(root: string, names: readonly string[], { path, lineage, step }: Saved): Promise<void> {
    for (const name of this.#overdue.keys()) if (!names.includes(name)) this.#overdue.delete(name);
    for (const name of names) {
      const set = parseSet(name);
      const isOld = set !== null && (set.lineage < lineage || (set.lineage === lineage && set.step < step));
      const changedMs = (await this.#fs.stat(`${root}/${name}`))?.modifiedMs ?? Number.POSITIVE_INFINITY;
      if (!isOld && this.#now.wallMs() - changedMs <= this.#now.graceMs) continue;
      const since = this.#overdue.get(name) ?? new Set();
      this.#overdue.set(name, since.add(path));
      this.#judge.require(
        since.size <= patience,
        "S39",
        () => `${name} is of no use any more, and is there after ${since.size} more checkpoints`,
      );
    }
  }

  async #checkSealedOnce(root: string, names: readonly string[], { lineage, step, version }: Saved): Promise<void> {
    const sealed: string[] = [];
    for (const name of names) {
      const named = parseCheckpointName(name);
      const path = `${root}/${name}`;
      if (named?.step !== step || named.version !== version || this.#damaged.has(path)) continue;
      const info = await verifyCheckpoint(path, { fs: this.#fs }).catch(() => null);
      if (info?.format === 3 && info.lineage === lineage) sealed.push(name);
    }
    this.#judge.require(sealed.length <= 1, "S25", () => `step ${step} is sealed ${sealed.length} times: ${sealed}`);
  }
}

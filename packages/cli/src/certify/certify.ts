/** The proof itself: the user's job in peace, then with kills, then the comparison of both. */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { messageOf } from "@muster/base";
import type { Contradiction } from "@muster/engine";
import type { EngineSaid } from "@muster/protocol";
import { makeFolderSync } from "@muster/runtime";
import { errors } from "../errors.ts";
import { JobChild, type Victim, victims } from "./job-child.ts";
import { type Verdict, verdictOf } from "./verdict.ts";

/** What to prove it on. */
export interface ProofOptions {
  /** Arguments of `muster run` that make the job. */
  readonly args: readonly string[];
  /** Folder of the two runs. */
  readonly runs: string;
  readonly steps: number;
  readonly kills: number;
  readonly stepMs: number;
  readonly contradictions: readonly Contradiction[];
  readonly say: (line: string) => void;
  readonly signal: AbortSignal;
}

/** A kill that was done. */
export interface Kill {
  /** The last step that was committed before it. */
  readonly afterStep: number;
  readonly victim: Victim;
}

type EnginesOfRuns = Readonly<Record<"quiet" | "killed", readonly EngineSaid[]>>;

/** What a proof comes to. */
export interface ProofResult extends Verdict {
  readonly kills: readonly Kill[];
  /** What the trainers of both runs computed with, as far as they said it. */
  readonly trainers: EnginesOfRuns;
  /** The same of the samplers. */
  readonly samplers: EnginesOfRuns;
}

/** Makes the folder of a proof. @throws MUSTER_ERR_OPTION_INVALID when an earlier proof has runs there: they would be gone on with, and compared as if they were new; MUSTER_ERR_FOLDER_UNUSABLE */
export function makeProofFolder(folder: string): void {
  const earlier = ["quiet", "killed"].find((job) => existsSync(join(folder, job)));
  if (earlier !== undefined)
    throw errors.OptionInvalid({
      option: "out",
      value: folder,
      reason: `has the ${earlier} run of an earlier proof; name another folder, or remove that one`,
    });
  try {
    makeFolderSync(folder);
  } catch (error) {
    throw errors.FolderUnusable({ field: "--out", path: folder, reason: messageOf(error) }, error);
  }
}

/** Runs the job twice and compares. Nothing of it runs any more when this returns or throws. @throws MUSTER_ERR_CERTIFY_RUN */
export async function prove(options: ProofOptions): Promise<ProofResult> {
  const { contradictions, say, steps } = options;
  say(`quiet run of ${steps} steps`);
  const quiet = await withChild("quiet", options, async (child) => {
    await child.ended();
    return await child.facts();
  });
  const done: Kill[] = [];
  const planned = Array.from({ length: options.kills }, (_, i) => victims[i % victims.length] ?? "job");
  say(`killed run: SIGKILL to ${planned.join(", ")}`);
  const killed = await withChild("killed", options, async (child) => {
    for (const [i, victim] of planned.entries()) {
      await child.until(
        Math.max((done.at(-1)?.afterStep ?? 0) + 1, Math.floor(((i + 1) * steps) / (planned.length + 1))),
      );
      const afterStep = child.committed();
      if (!(await child.kill(victim))) break;
      done.push({ afterStep, victim });
      say(`after step ${afterStep}: ${victim} killed`);
      if (victim === "job") child.start(["--resume", "killed"]);
    }
    await child.ended();
    return await child.facts();
  });
  const missing = planned.slice(done.length).map((victim) => `a kill of ${victim}`);
  const trainers = { quiet: quiet.trainers, killed: killed.trainers };
  const samplers = { quiet: quiet.ended?.samplers ?? [], killed: killed.ended?.samplers ?? [] };
  return { ...verdictOf({ quiet, killed, contradictions, missing }), kills: done, trainers, samplers };
}

async function withChild<T>(
  job: string,
  { runs, args, stepMs, signal }: ProofOptions,
  work: (child: JobChild) => Promise<T>,
): Promise<T> {
  const child = new JobChild({ runs, job, stepMs, signal });
  try {
    // Both have checkpoints of their own, wherever the job keeps its.
    const checkpoints = `checkpoint.directory=${join(runs, job, "checkpoints")}`;
    child.start([...args, "--set", checkpoints, "--job", job]);
    return await work(child);
  } finally {
    await child.close();
  }
}

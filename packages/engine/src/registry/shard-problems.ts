/** What stands against trainers of which each process has a shard of the training state. */
import type { JobConfig } from "@muster/protocol";
import type { EngineProblem } from "./adapter.ts";
import type { RankCut } from "./rank-layout.ts";

/** How the processes of trainers have the model, and whether samplers load the engine of the trainers. */
interface Cuts {
  readonly trainer: RankCut | null;
  readonly knowsTrainers: boolean;
}

/** One sentence for each; none where a trainer has its state in one process. Pure. */
export function shardProblems(config: JobConfig, { trainer, knowsTrainers }: Cuts): EngineProblem[] {
  if (!trainer) return [];
  const { processes, agreement = "state", checkpoint, rollout } = config;
  const what = `processes.policy = ${processes?.policy}: each process has a shard of the training state`;
  const problem = (key: string, text: string): EngineProblem => ({ keys: ["processes.policy", key], text });
  const problems: EngineProblem[] = [];
  if (agreement !== "state")
    problems.push(
      problem(
        "job.agreement",
        `${what}, and job.agreement = "${agreement}" compares what one process would need all of it for; set job.agreement = "state"`,
      ),
    );
  if (checkpoint.memoryEvery > 0)
    problems.push(
      problem(
        "checkpoint.memory_every",
        `${what}, and checkpoint.memory_every = ${checkpoint.memoryEvery} keeps states that one process has; set it to 0`,
      ),
    );
  if (rollout.ranks > 1)
    problems.push(
      problem(
        "rollout.ranks",
        `${what}, and samplers with rollout.ranks = ${rollout.ranks} cut versions that one process has; set it to 1, or use processes.rollout`,
      ),
    );
  if (!knowsTrainers)
    problems.push(
      problem(
        "engine.rollout",
        `${what}, and samplers of engine.rollout = "${config.engine.rollout.adapter}" do not know how; use the engine of the trainers, or one that takes their model`,
      ),
    );
  return problems;
}

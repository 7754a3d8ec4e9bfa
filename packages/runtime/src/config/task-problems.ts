/** What a job asks of its task and does not get, once files and modules have been looked into. */
import type { JobConfig } from "@muster/protocol";
import type { TaskShape } from "./job-engines.ts";
import type { Problem } from "./problem.ts";

/** Problems between a job and its task. `sourceOf` says where the value of a key comes from. Pure. */
export function taskProblems(
  config: JobConfig,
  { prompts, taskModule }: TaskShape,
  sourceOf: (key: string) => string,
): readonly Problem[] {
  const { task, evaluation } = config;
  const problems: Problem[] = [];
  const asked = { "evaluation.prompts": evaluation.prompts, "evaluation.loss_rows": evaluation.lossRows ?? 0 };
  for (const [key, rows] of Object.entries(asked)) {
    const fault = (what: string): void => {
      problems.push({ keys: [key], text: `${sourceOf(key)}: ${key} = ${rows}: ${what}` });
    };
    // Held-out rows are asked once each.
    if (prompts && rows > prompts.heldOutRows) {
      const { heldOutRows } = prompts;
      fault(`prompts.held_out has ${heldOutRows} rows; set ${key} to at most ${heldOutRows}`);
    }
    if (taskModule && rows > 0 && !taskModule.hasEvalPrompt)
      fault(`${task.name} has no evalPrompt; give its task one, or set ${key} = 0`);
  }
  if (taskModule && task.reward === task.name && !taskModule.hasReward)
    problems.push({
      keys: ["task.reward"],
      text: `task.reward is missing: ${task.name} has no reward; give its task one, or set task.reward`,
    });
  return problems;
}

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
  const evalFault = (fault: string): Problem => ({
    keys: ["evaluation.prompts"],
    text: `${sourceOf("evaluation.prompts")}: evaluation.prompts = ${evaluation.prompts}: ${fault}`,
  });
  const problems: Problem[] = [];
  // Held-out prompts are asked once each.
  if (prompts && evaluation.prompts > prompts.heldOutRows) {
    const { heldOutRows } = prompts;
    problems.push(
      evalFault(`prompts.held_out has ${heldOutRows} rows; set evaluation.prompts to at most ${heldOutRows}`),
    );
  }
  if (taskModule && evaluation.prompts > 0 && !taskModule.hasEvalPrompt)
    problems.push(evalFault(`${task.name} has no evalPrompt; give its task one, or set evaluation.prompts = 0`));
  if (taskModule && task.reward === task.name && !taskModule.hasReward)
    problems.push({
      keys: ["task.reward"],
      text: `task.reward is missing: ${task.name} has no reward; give its task one, or set task.reward`,
    });
  return problems;
}

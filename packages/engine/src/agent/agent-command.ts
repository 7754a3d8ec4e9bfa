/** The command of `rollout.agent`, taken apart. */
import type { JobConfig } from "@muster/protocol";
import { errors } from "../errors.ts";
import { environmentIn, wordsOf } from "../programs/command.ts";

/** The table `rollout.agent` of a job. */
export type AgentOptions = NonNullable<JobConfig["rollout"]["agent"]>;

/** Program, arguments and what the environment has besides. Pure. @throws MUSTER_ERR_AGENT_OPTION */
export function agentCommandOf({ command, environment }: AgentOptions): {
  readonly words: readonly string[];
  readonly env: Readonly<Record<string, string>>;
} {
  const words = wordsOf(command);
  if (words === null || words.length === 0)
    throw errors.AgentOption({
      ...{ field: "command", value: JSON.stringify(command) },
      rule: 'a program and its arguments, such as "python3 agent.py", each quote closed',
    });
  const env = environmentIn(environment ?? "");
  if (env === null)
    throw errors.AgentOption({
      ...{ field: "environment", value: JSON.stringify(environment) },
      rule: 'words such as "LOG_LEVEL=debug"',
    });
  return { words, env };
}

/** The keys of agents that sample: `rollout.agent`. */
import type { Field } from "./field.ts";
import { section } from "./field-section.ts";

/** Programs that take the place of the engine's own way, one for each sample. */
export const agentFields: readonly Field[] = section("rollout.agent", {
  command: [
    "optional-text",
    "",
    "Program that is started for each sample, with its arguments: it asks the model at OPENAI_BASE_URL. {base_url}, {session_url}, {api_key} and {prompt} are filled in; quote what has spaces. Empty for none.",
  ],
  directory: ["path", ".", "Folder that the agent starts in.", "rollout.agent.directory"],
  environment: [
    "optional-text",
    "",
    "What its environment has besides: NAME=value, by spaces.",
    "rollout.agent.environment",
  ],
  reward: [
    "text",
    "session",
    "Who judges an episode: session (the agent posts the reward) or task (task.reward judges what was said).",
    "rollout.agent.reward",
  ],
  at_once: ["integer", 4, "Agents that a rollout replica runs at the same time.", "rollout.agent.atOnce"],
  memory: [
    "size",
    "1GiB",
    "Memory of its own that an agent and what it starts may have; 0B for no limit.",
    "rollout.agent.memoryBytes",
  ],
  output_max: [
    "size",
    "1MiB",
    "What an agent may write to its standard output and error.",
    "rollout.agent.outputBytes",
  ],
});

/** What a sampler shows people of its groups: a bounded few of each step, chosen by their prompts and never by who was quick. */

import { clipText, type Prompt } from "@muster/base";
import type { Task } from "@muster/data";
import { type Body, isSupervised, type JobConfig, type StreamPlace, type TrajectoryGroup } from "@muster/protocol";

type Shown = Body<"samples.drawn">;

/** What a sample is made with. */
export interface SampleTools {
  readonly task: Pick<Task, "decode">;
  readonly config: Pick<JobConfig, "samples" | "training">;
}

/** Where a group is, and from which weights. */
export interface SamplePlace {
  readonly place: StreamPlace;
  readonly lineage: number;
  readonly version: number;
}

/** True for groups that are shown: those of the first prompts of a step, whoever draws them. */
export function isShown({ index }: Pick<TrajectoryGroup, "index">, { samples }: Pick<JobConfig, "samples">): boolean {
  return index < samples.groups;
}

/** What is shown of a group. Texts are clipped. Pure. */
export function sampleOf(
  group: TrajectoryGroup,
  prompt: Prompt | null,
  at: SamplePlace,
  { task, config }: SampleTools,
): Shown {
  const { responses, textChars } = config.samples;
  const { step, index, attempt, trajectories } = group;
  const [first] = trajectories;
  const asked = prompt?.text ?? task.decode(first?.tokens.slice(0, first.promptLength) ?? new Int32Array());
  return {
    ...{ step, index, attempt, streamSeq: at.place.streamSeq, lineage: at.lineage, version: at.version },
    prompt: clipText(asked, textChars),
    ...(prompt?.answer ? { answer: clipText(prompt.answer, 500) } : {}),
    responses: trajectories.slice(0, responses).map((trajectory, sample) => {
      const { tokens, promptLength, status, reward, components, metadata, error } = trajectory;
      const response = tokens.slice(promptLength);
      return {
        ...{
          sample,
          status,
          tokens: response.length,
          reward: status === "aborted" || isSupervised(config) ? null : reward,
        },
        ...(components ? { components: [...components] } : {}),
        ...(metadata === undefined ? {} : { metadata }),
        text: clipText(task.decode(response), textChars),
        ...(error ? { error: clipText(`${error.name}: ${error.message}`, 500) } : {}),
      };
    }),
  };
}

import { defineErrors } from "@muster/base";

/** Errors of tasks and of the files that prompts come from. */
export const errors = defineErrors("MUSTER_ERR", {
  TaskUnknown: { message: 'task "{name}" is not known; known tasks are {known}' },
  TaskTextInvalid: { message: 'character "{character}" is not in the vocabulary of task {task}' },
  TokenizerInvalid: { message: "{path} is no tokenizer that can be used: {reason}" },
  PromptsUnreadable: { message: "{path}: {reason}" },
  PromptsDiffer: {
    message:
      "the prompts in {path} are others than those of the job: their digest is {found}, and the job has {wanted}",
  },
  PromptInvalid: { message: "row {row} of {path}: {reason}" },
});

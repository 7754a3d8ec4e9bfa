import { defineErrors } from "@muster/base";

/** Errors of tasks, and of the files and modules that prompts come from. */
export const errors = defineErrors("MUSTER_ERR", {
  TaskUnknown: { message: 'task "{name}" is not known; known tasks are {known}' },
  TaskTextInvalid: { message: 'character "{character}" is not in the vocabulary of task {task}' },
  TokenizerInvalid: { message: "{path} is no tokenizer that can be used: {reason}" },
  TemplateThread: { message: "no thread renders chat templates: {reason}", retryable: true },
  TemplateExcess: { message: "the chat template of {path} exceeds a limit: {reason}" },
  PromptsUnreadable: { message: "{path}: {reason}" },
  PromptsDiffer: {
    message:
      "the prompts in {path} are others than those of the job: their digest is {found}, and the job has {wanted}",
  },
  ModuleUnloadable: { message: "{path} can not be loaded: {reason}" },
  TaskModuleInvalid: { message: "{path}: {field} is {value}; it must be {rule}" },
  TaskModuleDiffers: {
    message:
      "{path} is not what it was when the job was made: its digest is {found}, and the job has {wanted}; put back the module that the job began with, or begin a new job",
  },
  TaskPromptFailed: { message: "{path}: {call} {reason}" },
  PromptInvalid: { message: "row {row} of {path}: {reason}" },
});

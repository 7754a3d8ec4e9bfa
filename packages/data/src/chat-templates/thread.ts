/** Entry of the thread that renders chat templates. It keeps the templates that it has read, and nothing of a conversation. */
import { workerData } from "node:worker_threads";
import { messageOf } from "@muster/base";
import { boundedTemplate, TemplateExcess } from "./bounded-template.ts";
import type { RenderAnswer, RenderQuestion, RenderStart } from "./messages.ts";

/** Templates that are kept. A job has one or two. */
const keptMax = 8;

const { port, answers } = workerData as RenderStart;
const kept = new Map<string, ReturnType<typeof boundedTemplate>>();

port.on("message", (question: RenderQuestion) => {
  port.postMessage(answerTo(question));
  answered();
});
answered();

function answered(): void {
  Atomics.add(answers, 0, 1);
  Atomics.notify(answers, 0);
}

function answerTo({ template, variables }: RenderQuestion): RenderAnswer {
  let kind: "unreadable" | "refused" = "unreadable";
  try {
    const read = kept.get(template) ?? readAndKept(template);
    kind = "refused";
    return { kind: "text", text: variables ? read.render({ ...variables }) : "" };
  } catch (error) {
    return { kind: error instanceof TemplateExcess ? "excess" : kind, reason: messageOf(error) };
  }
}

function readAndKept(template: string): ReturnType<typeof boundedTemplate> {
  const read = boundedTemplate(template);
  if (kept.size >= keptMax) kept.clear();
  kept.set(template, read);
  return read;
}

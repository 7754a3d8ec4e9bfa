/** Public events as lines: for people one sentence, for programs one object. Pure. */

import type { EventMessage } from "@muster/client";
import type { Body } from "@muster/protocol";
import { cleanLine, clockTime, compact, duration, figure } from "../report/text.ts";
import { newsOf } from "../run/narrator.ts";
import { paintedNews } from "../terminal/paint.ts";
import { figuresText } from "./figures-text.ts";

/** Writes an event for a person, with the local time of its sender; text from outside is cleaned. */
export function eventLine(event: EventMessage, hasColour = false): string {
  return `${clockTime(event.sentAtMs)}  ${paintedNews(newsOf(event) ?? sentenceOf(event), hasColour)}`;
}

/** Events that are only numbers beside a progress line. */
function sentenceOf({ kind, body }: EventMessage): string {
  switch (kind) {
    case "job.started":
      return `  controller of term ${body.term} acts for the job: ${body.steps} steps, seed ${body.seed}`;
    case "job.ended":
      return `  ${body.outcome} at step ${body.step}, version ${body.version}: ${cleanLine(body.reason)}`;
    case "step.committed":
      return `  step ${body.step}  version ${body.version}  ${judgedText(body)}  ${compact(body.tokens)} tokens  ${duration(body.stepMs)}  staleness ${body.staleness}${figuresText(body)}`;
    case "samples.shown":
      return `  samples of group ${body.step}.${body.index} from ${cleanLine(body.replica, 60)}: ${body.responses.map(responseText).join("; ")}`;
    default:
      return `  ${kind}`;
  }
}

/** What tells how well it goes: the reward, or the loss where nobody judges. */
function judgedText({ reward, loss }: Body<"step.committed">): string {
  return reward === undefined ? `loss ${figure(loss, 3)}` : `reward ${figure(reward, 3)}`;
}

function responseText({ reward, text, error }: Body<"samples.shown">["responses"][number]): string {
  return `${cleanLine(text, 40)} (${reward === null ? cleanLine(error ?? "no reward", 60) : figure(reward, 3)})`;
}

/** Writes an event for a program: its place in the stream, who said it when, and the body, which may have a kind of its own. */
export function eventJson({ kind, from, term, sentAtMs, body }: EventMessage, seq: number): string {
  return JSON.stringify({ seq, kind, from, term, sentAtMs, body });
}

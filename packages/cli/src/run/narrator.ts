/** Tells a person what happens in a job: numbers into the progress line, news above it. */

import type { EventMessage } from "@muster/client";
import { settingsText } from "@muster/protocol";
import { type AliveCounts, cleanLine, type Progress } from "../report/index.ts";
import { Recoveries } from "./recoveries.ts";

/** One line of news for an event; `null` for events that are only numbers. Outside text is cleaned. */
export function newsOf({ kind, body }: EventMessage): string | null {
  switch (kind) {
    case "member.joined":
      return `+ ${body.id} joined`;
    case "member.left":
      return `- ${body.id} left: ${cleanLine(body.reason)}`;
    case "member.died":
      return `! ${body.id} died: ${cleanLine(body.evidence)}`;
    case "member.suspected":
      return `? ${body.id} is suspected: ${cleanLine(body.evidence)}`;
    case "member.recovered":
      return `+ ${body.id} is back`;
    case "mesh.changed":
      return `  mesh epoch ${body.epoch}: ${body.members.join(", ")}`;
    case "step.retried":
      return `! step ${body.step} starts again (attempt ${body.attempt}): ${cleanLine(body.reason)}`;
    case "step.skipped":
      return `! step ${body.step} skipped: ${cleanLine(body.reason)}`;
    case "groups.released":
      return `  ${body.count} groups of ${body.holder} go to others: ${cleanLine(body.reason)}`;
    case "groups.quarantined":
      return `! group ${body.item} is given up after ${body.attempts} failures, the last one of ${body.holder}: ${cleanLine(body.reason)}`;
    case "groups.resumed":
      return `  ${body.items.length} of them go on at ${body.holder}${body.tokens > 0 ? `, after ${body.tokens} tokens that were saved` : ""}`;
    case "groups.aborted":
      return `! ${body.count} trajectories of ${body.holder} aborted: ${cleanLine(`${body.name}: ${body.message}${body.frame ? ` at ${body.frame}` : ""}`)}`;
    case "eval.finished":
      return `  held-out exact match at version ${body.version}: ${(body.correct / Math.max(1, body.prompts)).toFixed(3)}`;
    case "checkpoint.kept":
      return `  checkpoint of step ${body.step} is durable`;
    case "checkpoint.best":
      return `  checkpoint of step ${body.step} is the best so far: held-out exact match ${(body.correct / Math.max(1, body.prompts)).toFixed(3)}`;
    case "job.changed":
      return `  from step ${body.fromStep} on: ${settingsText(body.settings)} (before: ${settingsText(body.before) || "not known"})`;
    case "command.accepted":
      return `> ${body.kind} (${body.commandId}): ${cleanLine(body.detail)}`;
    case "command.done":
      return `> ${body.kind} (${body.commandId}) is ${body.outcome}: ${cleanLine(body.detail)}`;
    case "command.refused":
      return `> ${body.kind} (${body.commandId}) is refused: ${cleanLine(body.reason)}`;
    case "fleet.changed":
      return body.to === "RETIRED" ? `! ${body.id} is given up: ${cleanLine(body.reason)}` : null;
    case "alarm.raised":
      return `! ${body.alarm}: ${cleanLine(body.detail)}`;
    default:
      return null;
  }
}

/** The teller of one run. */
export interface Narrator {
  /** Takes an event; what was said before this run began is no news. */
  take(message: EventMessage, isNews: boolean): void;
  /** Says which recoveries are not over. */
  end(): void;
}

/** Makes the teller of one run. Numbers are taken from all events, lines are made of those that are news, one for each recovery. */
export function createNarrator(progress: Progress, steps: number): Narrator {
  const recoveries = new Recoveries();
  let alive: AliveCounts = { policy: 0, rollout: 0, checkpoint: 0 };
  let isOver = false;
  let lastMs = 0;
  /** A job that was interrupted goes on: nodes and checkpoint actors of before had no time to say that they leave. */
  let isTakenUp = false;
  progress.update({ steps });
  const tell = (message: EventMessage): void => {
    const { kind, body, sentAtMs } = message;
    if (kind === "job.started") isTakenUp = body.term > 1 && alive.policy + alive.rollout === 0;
    const isLeftover = isTakenUp && kind === "member.died" && (body.role === "node" || body.role === "checkpoint");
    const { isPart, lines } = recoveries.take(message);
    for (const line of lines) progress.note(line, sentAtMs);
    const news = isPart || isLeftover ? null : newsOf(message);
    if (kind === "job.started" && body.term > 1 && !isTakenUp)
      progress.note(`! another controller acts: term ${body.term} begins`, sentAtMs);
    if (news !== null) progress.note(news, sentAtMs);
  };
  return {
    take(message, isNews) {
      const { kind, body } = message;
      lastMs = message.sentAtMs;
      // Once the job is over everybody leaves: that is no news.
      if (isOver && kind === "member.left") return;
      isOver = kind === "job.ended" || isOver;
      if (isNews) tell(message);
      if (kind === "job.changed" && body.settings.steps !== undefined) progress.update({ steps: body.settings.steps });
      if (kind === "member.joined") alive = counted(alive, body.role, 1);
      else if (kind === "member.left" || kind === "member.died") alive = counted(alive, body.role, -1);
      const trouble = recoveries.open;
      if (kind === "step.committed") {
        isTakenUp = false;
        const { step, reward, loss, tokens, version: weightVersion } = body;
        progress.update({
          step,
          ...(reward === undefined ? { loss } : { reward }),
          tokens,
          weightVersion,
          alive,
          trouble,
        });
      } else progress.update({ alive, trouble });
    },
    end() {
      for (const line of recoveries.end(lastMs)) progress.note(line);
    },
  };
}

/** The counts after a member came or went; nodes compute nothing and are not shown. */
function counted(alive: AliveCounts, role: string, change: 1 | -1): AliveCounts {
  return role in alive ? { ...alive, [role]: Math.max(0, alive[role as keyof AliveCounts] + change) } : alive;
}

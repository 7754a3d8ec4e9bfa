/** What the page keeps of a public event: small, and safe to send to a browser. Pure. */
import type { EventMessage } from "@muster/client";

/** One committed step, as the curves show it. Reward is a mean, `null` where nobody judges; `stepMs` in milliseconds. */
export interface StepPoint {
  readonly step: number;
  readonly atMs: number;
  readonly reward: number | null;
  readonly loss: number;
  /** On held-out rows; `null` of a step after which it is not measured. */
  readonly heldOutLoss: number | null;
  readonly tokens: number;
  readonly stepMs: number;
  readonly epoch: number;
  readonly version: number;
  readonly lineage: number;
  /** Means of the components of its rewards, in the order of the names that the page shows; `null` for one that it does not have. */
  readonly parts: readonly (number | null)[];
}

/** What an operator asked for, and what became of it. */
export interface CommandFact {
  readonly id: string;
  readonly kind: string;
  /** Id and incarnation of who gave it. */
  readonly by: string;
  readonly outcome: "accepted" | "done" | "cancelled" | "superseded" | "refused";
  readonly detail: string;
}

/** What one event changes on the page. */
export type Change =
  | {
      readonly kind: "step";
      readonly point: Omit<StepPoint, "parts">;
      readonly components: readonly { readonly name: string; readonly mean: number }[];
    }
  | { readonly kind: "eval"; readonly version: number; readonly share: number }
  | { readonly kind: "mesh"; readonly epoch: number; readonly members: readonly string[] }
  | { readonly kind: "about"; readonly id: string; readonly why: string }
  | { readonly kind: "command"; readonly command: CommandFact }
  | { readonly kind: "started" }
  | { readonly kind: "ended"; readonly outcome: string; readonly reason: string };

/** One event: its place in the stream, its line for people where it is news, and what it changes. */
export interface Fact {
  readonly seq: number;
  readonly atMs: number;
  readonly event: string;
  /** Cleaned for one line; `null` for an event that is only numbers. */
  readonly line: string | null;
  readonly change: Change | null;
}

/** Writes an event as one line for people, cleaned; `null` when it is only numbers. */
export type Say = (event: EventMessage) => string | null;

/** Makes the fact of an event. */
export function factOf(event: EventMessage, seq: number, say: Say): Fact {
  return { seq, atMs: event.sentAtMs, event: event.kind, line: say(event), change: changeOf(event) };
}

/** Members of a mesh that are named; a hundred epochs of thousands would be more than a page is sent at once. */
const namesMax = 32;

function shownOf(members: readonly string[]): readonly string[] {
  const more = members.length - namesMax;
  return more > 0 ? [...members.slice(0, namesMax), `and ${more} more`] : members;
}

function changeOf(event: EventMessage): Change | null {
  const { kind, body, sentAtMs: atMs } = event;
  switch (kind) {
    case "step.committed": {
      const { step, reward = null, loss, heldOutLoss = null, tokens, stepMs, epoch, version, lineage } = body;
      const components = (body.components ?? []).map(({ name, mean }) => ({ name, mean }));
      const judged = { reward, loss, heldOutLoss };
      return { kind: "step", point: { step, atMs, ...judged, tokens, stepMs, epoch, version, lineage }, components };
    }
    case "eval.finished":
      return { kind: "eval", version: body.version, share: body.correct / Math.max(1, body.prompts) };
    case "mesh.changed":
      return { kind: "mesh", epoch: body.epoch, members: shownOf(body.members) };
    case "member.suspected":
    case "member.died":
    case "member.hung":
      return { kind: "about", id: body.id, why: body.evidence };
    case "member.left":
      return { kind: "about", id: body.id, why: body.reason };
    case "fleet.changed":
      return { kind: "about", id: body.id, why: body.to === "HEALTHY" ? "" : body.reason };
    case "member.recovered":
    case "member.joined":
      return { kind: "about", id: body.id, why: "" };
    case "command.accepted":
    case "command.refused":
    case "command.done": {
      const detail = kind === "command.refused" ? body.reason : body.detail;
      const outcome =
        kind === "command.done"
          ? body.outcome
          : kind === "command.refused"
            ? ("refused" as const)
            : ("accepted" as const);
      return { kind: "command", command: { id: body.commandId, kind: body.kind, by: body.by, outcome, detail } };
    }
    case "job.started":
      return { kind: "started" };
    case "job.ended":
      return { kind: "ended", outcome: body.outcome, reason: body.reason };
    default:
      return null;
  }
}

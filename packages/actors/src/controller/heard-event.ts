/** Messages as events of the controller's machine. */
import { createHash } from "node:crypto";
import type { ControllerEvent } from "@muster/machines/controller";
import { type AnyMessage, commandKinds } from "@muster/protocol";

const commands: ReadonlySet<string> = new Set(commandKinds);

/** True for what is answered as often as it is said, and done once: what an operator asks. Pure. */
export function isAnsweredAgain({ kind, role }: AnyMessage): boolean {
  return role === "operator" && commands.has(kind);
}

/** The event that a message is. A command without an id has one by its message: the same bytes again are the same command, in every term. Pure. */
export function eventOf(message: AnyMessage, atMs: number): ControllerEvent {
  const { kind: type, from, role, incarnation, body } = message;
  const isUnnamed = isAnsweredAgain(message) && (!("commandId" in body) || body.commandId === undefined);
  const named = isUnnamed ? { ...body, commandId: commandIdOf(message) } : body;
  return { type, atMs, from, role, incarnation, body: named } as ControllerEvent;
}

function commandIdOf({ from, incarnation, id }: AnyMessage): string {
  const digest = createHash("sha256").update(`${from}\n${incarnation}\n${id}`).digest("hex");
  return `auto-${digest.slice(0, 24)}`;
}

import type { AnyMessage } from "@muster/protocol";
import { expect, it } from "vitest";
import { eventOf, isAnsweredAgain } from "../src/controller/heard-event.ts";

const message = (role: string, kind: string, body: object = {}): AnyMessage =>
  ({ kind, role, from: "ops", incarnation: "i1", id: "i1.1", body }) as unknown as AnyMessage;

it("only what an operator asks is answered as often as it is said", () => {
  expect(isAnsweredAgain(message("operator", "fleet.scale"))).toBe(true);
  expect(isAnsweredAgain(message("operator", "process.exited"))).toBe(false);
  expect(isAnsweredAgain(message("rollout", "fleet.scale"))).toBe(false);
});

it("a command without a name has one by its message: the same again is the same command", () => {
  const nameOf = (heard: AnyMessage): unknown =>
    (eventOf(heard, 5) as { body?: { commandId?: string } }).body?.commandId;
  const asked = message("operator", "fleet.scale");
  expect(nameOf(asked)).toMatch(/^auto-[0-9a-f]{24}$/);
  expect(nameOf(asked)).toBe(nameOf({ ...asked }));
  expect(nameOf({ ...asked, id: "i1.2" })).not.toBe(nameOf(asked));
  expect(nameOf(message("operator", "fleet.scale", { commandId: "mine" }))).toBe("mine");
  expect(nameOf(message("operator", "fleet.scale", { commandId: undefined })), "left empty").toBe(nameOf(asked));
  expect(nameOf(message("rollout", "fleet.scale"))).toBeUndefined();
});

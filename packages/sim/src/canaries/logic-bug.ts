/** The controller's real machine with one wrong line before or after its step. */
import type { ControllerLogic } from "@muster/actors/controller";
import {
  type ControllerEffect,
  type ControllerEvent,
  type ControllerState,
  controllerLogic,
} from "@muster/machines/controller";
import type { Canary } from "./canary.ts";

type Snapshot = ReturnType<ControllerLogic["init"]>["snapshot"];

/** Where a wrong line may stand. */
export interface WrongLine {
  /** Before the step: what the machine hears. */
  hears?(event: ControllerEvent, state: ControllerState): ControllerEvent;
  /** After the step: what the machine remembers. */
  keeps?(after: ControllerState, before: ControllerState, event: ControllerEvent): ControllerState;
  /** What becomes of an effect; `null` when it is forgotten. */
  does?(effect: ControllerEffect, before: ControllerState): ControllerEffect | null;
}

function logicWith(line: WrongLine): { readonly logic: ControllerLogic } {
  const step: ControllerLogic["step"] = (snapshot, event) => {
    const before = snapshot.context.state;
    const { snapshot: next, effects } = controllerLogic.step(snapshot, line.hears?.(event, before) ?? event);
    const after = next.context.state;
    const state = line.keeps?.(after, before, event) ?? after;
    const done = line.does
      ? effects.flatMap((effect) => line.does?.(effect as ControllerEffect, before) ?? [])
      : effects;
    return { snapshot: state === after ? next : withState(next, state), effects: done };
  };
  return { logic: { ...controllerLogic, step } };
}

function withState(snapshot: Snapshot, state: ControllerState): Snapshot {
  return { ...snapshot, context: { ...snapshot.context, state } };
}

/** A canary in the controller's logic. */
export const logicBug = (
  name: string,
  says: string,
  given: Pick<Canary, "profile" | "seedsMax" | "stage" | "shape"> & { readonly line: WrongLine },
): Canary => {
  const { line, ...where } = given;
  return { name, says, ...where, make: () => logicWith(line) };
};

/** True when a step was committed between two states. */
export function isCommit(after: ControllerState, before: ControllerState): boolean {
  return before.weights !== null && after.weights !== null && after.weights.version > before.weights.version;
}

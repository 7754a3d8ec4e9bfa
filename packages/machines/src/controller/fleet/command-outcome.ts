/** What becomes of a command at once. */
import type { ControllerEffect } from "../events.ts";
import type { ControllerState } from "../state.ts";
import type { CommandAnswer, CommandRow } from "./fleet-state.ts";

/** A command that was taken, or the reason why not. */
export type CommandOutcome =
  | {
      readonly state: ControllerState;
      readonly detail: string;
      readonly effects: readonly ControllerEffect[];
      readonly row?: Partial<CommandRow>;
      /** Absent while something is still to be done. */
      readonly answer?: CommandAnswer;
    }
  | { readonly state: ControllerState; readonly refusal: string };

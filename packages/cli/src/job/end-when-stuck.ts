/** The end of a command whose main loop is blocked when a signal comes. */
import { constants } from "node:os";
import { guardSignal } from "@muster/collectives";

/** From the first handler of one of these signals on, it ends this process when the main loop does not turn within five seconds of it. */
export function endWhenStuck(names: readonly NodeJS.Signals[]): void {
  process.on("newListener", (name: string | symbol) => {
    if (names.some((one) => one === name)) guardSignal(constants.signals[name as NodeJS.Signals]);
  });
}

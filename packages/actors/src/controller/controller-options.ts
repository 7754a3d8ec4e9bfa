/** What a controller is made from, and how others see it. */
import type { Rules } from "@muster/machines/controller";
import type { JobConfig } from "@muster/protocol";
import type { Environment } from "../environment.ts";
import type { ControllerLogic, ControllerSnapshot } from "./journal-replay.ts";
import type { LossOptions } from "./lost-checkpoint.ts";

/** How a controller ended. */
export interface ControllerEnd {
  /**
   * `fenced`: another controller acts for the job; `aborted`: asked to go without ending the job; `lost`: it does not know what became of
   * its last word (it stood still, or the broker did), so the next one reads the journal.
   */
  readonly outcome: "done" | "stopped" | "failed" | "fenced" | "aborted" | "lost";
  readonly reason: string;
}

/** A running controller. */
export interface Controller {
  /** Lets go of the job without ending it: replicas go on, and the next controller takes over. */
  abort(reason: string): void;
  /** The machine's present state. */
  snapshot(): ControllerSnapshot;
  readonly ended: Promise<ControllerEnd>;
}

/** Which job to control. */
export interface ControllerOptions extends LossOptions {
  readonly config: JobConfig;
  /** 32 bytes that members of the data plane prove to know; never journaled. */
  readonly dataKey: Uint8Array;
  readonly environment: Environment;
  /** The logic that decides, for tests of what watches it; default the controller's machine. */
  readonly logic?: ControllerLogic;
  /** Oldest minor version of the protocol that it takes; default that of this program. */
  readonly minorLeast?: number;
  /** By which rules the journal is folded; default those of this program's own modules. */
  readonly rules?: Rules;
  /** Most bytes of one record of the journal, for tests of what takes several; default 768 KiB. */
  readonly recordBytes?: number;
}

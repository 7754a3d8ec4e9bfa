/** What is known of the training state that checkpoint actors keep in memory; plain JSON. */
import type { Section } from "@muster/protocol";
import type { VersionKey } from "../../version-key.ts";
import type { AtMs } from "../at-ms.ts";
import type { ControllerPlan } from "../plan.ts";

/** The training state after a step: weights and optimizer, and the name under which they can be pulled. */
export interface KeptState extends VersionKey {
  readonly step: number;
  readonly sections: readonly Section[];
}

/**
 * The memory of one checkpoint actor. What it holds is always a state from which the present one came: going back to a step forgets what lies
 * behind that step.
 */
export interface MemberMemory {
  readonly held: KeptState | null;
  /** What it was told to take, until it answers; forgotten when `dueAtMs` passes. */
  readonly asked: (KeptState & { readonly dueAtMs: AtMs }) | null;
  /** Not asked again before this time. */
  readonly retryAtMs: AtMs;
  /** Orders in a row that it did not fulfil. */
  readonly failures: number;
  /** It said that it has no room. */
  readonly isTooLarge: boolean;
  /** Times in a row that a policy replica could not get what it holds. */
  readonly misses: number;
}

/** Where a lineage begins. */
export type Beginning = ControllerPlan["weights"] | ({ readonly kind: "memory" } & KeptState);

/** Nothing is kept and nothing was asked for. */
export const emptyMemory: MemberMemory = {
  held: null,
  asked: null,
  retryAtMs: 0,
  failures: 0,
  isTooLarge: false,
  misses: 0,
};

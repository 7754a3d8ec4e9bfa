/** What a member was told to do and has not answered. */
import { isSame, type VersionKey } from "../version-key.ts";
import type { AtMs } from "./at-ms.ts";

/** Sent again, or forgotten so that the planners decide anew, when it is due. */
interface Due {
  readonly dueAtMs: AtMs;
}

/** An order about one version of the weights. */
export interface VersionOrder extends Due, VersionKey {
  readonly kind: "weights.initialize" | "weights.pull" | "weights.publish" | "step.apply" | "checkpoint.save";
  /** Shards of the checkpoint that are to be written; none to seal it; absent for a whole one, and in other orders. */
  readonly write?: readonly number[];
}

/** An order that a member has not answered yet. */
export type Order =
  | VersionOrder
  | (Due & { readonly kind: "replica.stop" })
  | (Due & { readonly kind: "node.assign"; readonly revision: number });

/** The order to write the checkpoint of a version, or a part of it, or to seal it; `null` for any other. Pure. */
export function saveOf(order: Order | null | undefined, version: VersionKey): VersionOrder | null {
  return order?.kind === "checkpoint.save" && isSame(order, version) ? order : null;
}

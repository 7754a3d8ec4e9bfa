/** What a rollout replica says of the version that it holds. */
import { report } from "../replica-events.ts";
import type { RolloutContext, RolloutEffect, RolloutEvent } from "./rollout-events.ts";

type Pulled = Extract<RolloutEvent, { readonly type: "weights.pulled" }>;

/** It holds what it wanted. What its engine is goes with the first version: the controller remembers it for as long as this process is a member. Pure. */
export function heldNow(
  { isEngineTold }: RolloutContext,
  { type: _, engine, ...body }: Pulled,
): Pick<RolloutContext, "held" | "isEngineTold" | "wanted"> {
  return {
    held: engine === undefined || isEngineTold ? body : { ...body, engine },
    isEngineTold: isEngineTold || engine !== undefined,
    wanted: null,
  };
}

/** A state that was entered without what it is about. */
export const unreachable: RolloutEffect = { type: "drop", kind: "entry", reason: "entered without its order" };

/** Its word on what it holds. Pure. */
export function wordOnHeld({ held }: RolloutContext): RolloutEffect {
  return held ? report("weights.held", held) : unreachable;
}

/** A public event of a job, as its watchers hear it. */
import type { AnyMessage, KindOf } from "@muster/protocol";

/** A public event. */
export type EventMessage = Extract<AnyMessage, { kind: KindOf<"event"> }>;

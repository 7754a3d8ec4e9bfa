/**
 * Turns an XState machine into {@link Logic}. XState's own `transition()` builds an actor on each call; here one inert scope is
 * reused, which is ten times cheaper and gives the same result. `after` timers come out as data; any other XState action is refused.
 */
import { invariant, messageOf } from "@muster/base";
import {
  type AnyActorScope,
  type AnyStateMachine,
  createActor,
  type EventFromLogic,
  type InputFrom,
  type SnapshotFrom,
} from "xstate";
import type { Logic, Step, TimerEffect } from "./logic.ts";

/** Name of the one action by which machines emit effects; its params are the effect. */
export const effectAction = "effect";

interface EmittedAction {
  readonly type: string;
  readonly params: unknown;
}

interface DelayedRaise<Event> {
  readonly id: string;
  readonly delay: number;
  readonly event: Event;
}

/**
 * Wraps a machine whose only side effects are `effect` actions and `after` timers.
 *
 * @throws MUSTER_ERR_INVARIANT_BROKEN when the machine asks for anything else, or ends in an error.
 */
export function logicOf<M extends AnyStateMachine, Effect>(
  machine: M,
  sampleInput: InputFrom<M>,
): Logic<InputFrom<M>, EventFromLogic<M>, SnapshotFrom<M>, Effect | TimerEffect<EventFromLogic<M>>> {
  type Event = EventFromLogic<M>;
  type Emitted = Effect | TimerEffect<Event>;
  let emitted: EmittedAction[] = [];
  const inert = createActor(machine, { input: sampleInput });
  const scope = {
    self: inert,
    system: inert.system,
    id: machine.id,
    sessionId: machine.id,
    logger: () => {},
    defer: () => {},
    emit: () => {},
    stopChild: () => {},
    actionExecutor: (action: EmittedAction) => emitted.push(action),
  } as unknown as AnyActorScope;

  const finish = (snapshot: SnapshotFrom<M>): Step<SnapshotFrom<M>, Emitted> => {
    const effects = emitted.map((action) => toEffect<Effect, Event>(action));
    emitted = [];
    const failure = failureOf(snapshot);
    invariant(failure === null, `machine ${machine.id}: ${failure}`);
    return { snapshot, effects };
  };

  return {
    id: machine.id,
    init: (input) => finish(machine.getInitialSnapshot(scope, input) as SnapshotFrom<M>),
    step: (snapshot, event) => finish(machine.transition(snapshot, event, scope) as SnapshotFrom<M>),
  };
}

function toEffect<Effect, Event>(action: EmittedAction): Effect | TimerEffect<Event> {
  if (action.type === effectAction) return action.params as Effect;
  if (action.type === "xstate.raise") {
    const { id, delay, event } = action.params as DelayedRaise<Event>;
    return { type: "timer.start", id, delayMs: delay, event };
  }
  invariant(action.type === "xstate.cancel", `machine action ${action.type} is not data`);
  return { type: "timer.cancel", id: (action.params as { sendId: string }).sendId };
}

/** What went wrong inside a machine, or `null`. */
function failureOf(snapshot: unknown): string | null {
  const { status, error } = snapshot as { status: string; error?: unknown };
  return status === "error" ? messageOf(error) : null;
}

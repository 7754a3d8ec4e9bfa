/** A node: runs the replicas that the controller assigned to its host, and says at once what became of them. */
import { nodeCapabilities, perRole, processOf } from "@muster/protocol";
import { enqueueActions, setup } from "xstate";
import { effectAction, logicOf } from "../from-xstate.ts";
import type { TimerEffect } from "../logic.ts";
import { report } from "../replica-events.ts";
import {
  applyAssign,
  applyDue,
  applyExit,
  applyLate,
  applySignal,
  applySigns,
  applyStarted,
  type Keeping,
  releaseAll,
} from "./keep-replicas.ts";
import type { NodeContext, NodeEffect, NodeEvent, NodeInput } from "./node-events.ts";

type Effect = NodeEffect | TimerEffect<NodeEvent>;

/** What an event changes in the table of replicas; what is not meant for a node changes nothing. Pure. */
function keep(context: NodeContext, event: NodeEvent): Keeping {
  if (event.type === "replica.stop" || event.type === "replica.fenced") {
    const released = releaseAll(context);
    return { ...released, context: { ...released.context, phase: "ended" } };
  }
  if (event.type === "keeper.cleaned")
    return { context: { ...context, phase: "keeping" }, effects: cleaned(context, event) };
  if (event.type === "replica.registered")
    return { context, effects: context.phase === "waiting" ? [{ type: "keeper.clean" }] : [] };
  if (context.phase !== "keeping") return { context, effects: dropped(event) };
  switch (event.type) {
    case "node.assign":
      return applyAssign(context, event.body);
    case "node.signal":
      return applySignal(context, event.body);
    case "keeper.started":
      return applyStarted(context, event);
    case "keeper.exited":
      return applyExit(context, event);
    case "keeper.signalled":
      return { context, effects: [report("node.signalled", event.body)] };
    case "host.signs":
      return applySigns(context, event.signs);
    case "keeper.due":
      return applyDue(context, event.id);
    case "keeper.late":
      return applyLate(context, event.id);
    default:
      return { context, effects: [] };
  }
}

function dropped({ type }: NodeEvent): readonly Effect[] {
  const isMeant = type.startsWith("node.") || type.startsWith("keeper.");
  return isMeant ? [{ type: "drop", kind: type, reason: "before the node was ready" }] : [];
}

/** What an earlier life left is over, and this one has room. */
function cleaned(
  { host, capacity }: NodeContext,
  { ended, address }: Extract<NodeEvent, { type: "keeper.cleaned" }>,
): readonly NodeEffect[] {
  const exits = ended.map(({ id, pid }) =>
    report("process.exited", { ...processOf(id), host, pid, code: null, signal: null }),
  );
  const capabilities = [...nodeCapabilities];
  return [...exits, report("node.ready", { capacity, capabilities, ...(address === undefined ? {} : { address }) })];
}

const machine = setup({
  types: {} as { context: NodeContext; events: NodeEvent; input: NodeInput },
  actions: { [effectAction]: (_, _effect: Effect) => {} },
  guards: {
    isReady: ({ context }) => context.phase === "keeping",
    isOver: ({ context }) => context.phase === "ended",
  },
}).createMachine({
  id: "node",
  context: ({ input }) => ({ ...input, phase: "waiting", revision: 0, kept: {}, signs: [], signalled: [] }),
  initial: "waiting",
  on: {
    "*": {
      actions: enqueueActions(({ context, event, enqueue }) => {
        const { context: next, effects } = keep(context, event);
        if (next !== context) enqueue.assign(next);
        for (const effect of effects) enqueue({ type: effectAction, params: effect });
      }),
    },
  },
  always: { guard: "isOver", target: ".ended" },
  states: {
    waiting: {
      description: "Is not admitted yet, or still cleans up. Watched by the heartbeat.",
      always: { guard: "isReady", target: "keeping" },
    },
    keeping: { description: "Runs what it was assigned. Watched by the heartbeat." },
    ended: { type: "final", description: "Has let go of everything." },
  },
});

/** The machine itself, for diagrams and model tests. */
export const nodeMachine = machine;

/** A node as a pure core. */
export const nodeLogic = logicOf<typeof machine, NodeEffect>(machine, {
  host: "",
  capacity: perRole(() => null),
  // no mutant: any input will do for the actor that is never started
  graceMs: 1,
});

/**
 * The controller as a state machine. Its tables decide (`control.ts`); its states say what the job is doing, and each of them has a
 * watchdog that raises an alarm when the job stays in it for too long.
 */
import { assign, enqueueActions, type SnapshotFrom, setup } from "xstate";
import { effectAction, logicOf } from "../from-xstate.ts";
import { control } from "./control.ts";
import { announce, type ControllerEffect, type ControllerEvent } from "./events.ts";
import { crowd } from "./members/crowd.ts";
import type { ControllerPlan } from "./plan.ts";
import { type ControllerState, countOf, initialControllerState } from "./state.ts";

/** What the job is doing, derived from the tables. */
export const controllerPhases = [
  "gathering",
  "seeding",
  "rebuilding",
  "sampling",
  "stepping",
  "publishing",
  "restoring",
  "ending",
  "stopped",
] as const;

/** One of the {@link controllerPhases}. */
export type ControllerPhase = (typeof controllerPhases)[number];

/** The phase that the tables are in. Pure. */
export function phaseOf(state: ControllerState): ControllerPhase {
  if (state.stopped) return "stopped";
  if (state.ending) return "ending";
  if (!state.weights)
    return state.restore.lineage > 0 ? "restoring" : countOf(state, "policy") > 0 ? "seeding" : "gathering";
  if (state.mesh.epoch === 0) return "gathering";
  if (state.mesh.state !== "ready") return "rebuilding";
  if (state.step.state === "running") return "stepping";
  return crowd.of(state.members).applying > 0 ? "publishing" : "sampling";
}

/** What the machine remembers: its tables, and the phase that they are in. */
export interface ControllerContext {
  readonly state: ControllerState;
  readonly phase: ControllerPhase;
}

function stuckAlarm(context: ControllerContext): ControllerEffect {
  const detail = `no progress: the job is ${context.phase} at step ${context.state.step.step}`;
  return announce("alarm.raised", { alarm: "progress", detail });
}

/** A state with its watchdog: when it expires, the operator hears of it, and the watchdog starts again. */
const waiting = <const P extends ControllerPhase>(phase: P, description: string) =>
  ({
    description,
    entry: { type: "enter", params: phase },
    after: {
      watchdog: {
        reenter: true,
        target: phase,
        actions: { type: effectAction, params: ({ context }: { context: ControllerContext }) => stuckAlarm(context) },
      },
    },
  }) as const;

const machine = setup({
  types: {} as { context: ControllerContext; events: ControllerEvent; input: ControllerPlan },
  actions: {
    [effectAction]: (_, _effect: ControllerEffect) => {},
    enter: assign((_, phase: ControllerPhase) => ({ phase })),
  },
  guards: {
    movesTo: ({ context }, phase: ControllerPhase) => phaseOf(context.state) === phase && context.phase !== phase,
  },
  delays: {
    watchdog: ({ context }) => {
      const { gatherMs, stepMs, leaseMs, checkpointMs } = context.state.plan.timing;
      return Math.max(gatherMs, stepMs, leaseMs, checkpointMs) * 2;
    },
  },
}).createMachine({
  id: "controller",
  context: ({ input }) => ({ state: initialControllerState(input), phase: "gathering" }),
  initial: "gathering",
  on: {
    "*": {
      actions: enqueueActions(({ context, event, enqueue }) => {
        const { state, effects } = control(context.state, event);
        if (state !== context.state) enqueue.assign({ state });
        for (const effect of effects) enqueue({ type: effectAction, params: effect });
      }),
    },
  },
  always: controllerPhases.map((phase) => ({
    guard: { type: "movesTo" as const, params: phase },
    target: `.${phase}` as const,
  })),
  states: {
    gathering: waiting("gathering", "Waits for the first replicas."),
    seeding: waiting("seeding", "The first policy replica makes or loads the initial weights."),
    rebuilding: waiting("rebuilding", "The policy replicas join the communicator of a new epoch."),
    sampling: waiting("sampling", "Rollout replicas generate the groups of the next step."),
    stepping: waiting("stepping", "Policy replicas compute the step and vote."),
    publishing: waiting("publishing", "The step is committed; policy replicas make its candidate live."),
    restoring: waiting("restoring", "No policy replica holds the state: one restores the newest checkpoint."),
    ending: waiting("ending", "The last checkpoint is written and replicas are released."),
    stopped: { type: "final", entry: { type: "enter", params: "stopped" }, description: "The job is over." },
  },
});

const samplePlan = { timing: {} } as ControllerPlan;

/** The machine itself, for diagrams and model tests. */
export const controllerMachine = machine;

/** The controller as a pure core: {@link control} inside a watched state machine. */
export const controllerLogic = logicOf<typeof machine, ControllerEffect>(machine, samplePlan);

/** The snapshot of a machine whose memory was written down. The timers that ran are not in it. Pure. */
export function controllerSnapshotOf({ state, phase }: ControllerContext): SnapshotFrom<typeof machine> {
  return machine.resolveState({ value: phase, context: { state, phase } });
}

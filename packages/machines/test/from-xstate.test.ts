import { checkpointLogic, type Logic, membershipLogic, policyLogic, rolloutLogic } from "@muster/machines";
import { type ControllerPlan, controllerLogic } from "@muster/machines/controller";
import {
  checkpointMachine,
  controllerMachine,
  logicOf,
  membershipMachine,
  policyMachine,
  rolloutMachine,
} from "@muster/machines/internal";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type AnyStateMachine, createMachine, initialTransition, setup, transition } from "xstate";
import { effectAction } from "../src/from-xstate.ts";
import { eventsOf } from "./model/alphabet.ts";
import { plan } from "./plans.ts";

type AnyLogic = Logic<unknown, { type: string }, { value: unknown; context: unknown; status: string }, unknown>;
const pairOf = (machine: AnyStateMachine, logic: object, input: unknown) => ({
  machine,
  logic: logic as AnyLogic,
  input,
});

const timing = { ...plan.timing, initializeMs: 9, registerMs: 9 };
const membership = { role: "policy", host: "h", pid: 1, build: "b", node: null, timing };
const pairs = {
  membership: pairOf(membershipMachine, membershipLogic, membership),
  policy: pairOf(policyMachine, policyLogic, { timing }),
  rollout: pairOf(rolloutMachine, rolloutLogic, { timing, chunkGroups: 2, leasesMax: 2 }),
  checkpoint: pairOf(checkpointMachine, checkpointLogic, { checkpointMs: 9 }),
  controller: pairOf(controllerMachine, controllerLogic, plan satisfies ControllerPlan),
};

/** XState's actions as the adapter shows them. */
function effectsOf(actions: readonly { type: string; params?: unknown }[]): unknown[] {
  return actions.map(({ type, params }) => {
    if (type === effectAction) return params;
    const { id, delay, event, sendId } = params as { id: string; delay: number; event: unknown; sendId: string };
    return type === "xstate.raise"
      ? { type: "timer.start", id, delayMs: delay, event }
      : { type: "timer.cancel", id: sendId };
  });
}

describe("the adapter", () => {
  it.each(Object.keys(pairs) as (keyof typeof pairs)[])(
    "gives for %s exactly what XState's own transition gives",
    (name) => {
      const { machine, logic, input } = pairs[name];
      const event = fc.constantFrom(...eventsOf(name));
      fc.assert(
        fc.property(fc.array(event, { maxLength: 25 }), (events) => {
          let [theirs, actions] = initialTransition(machine, input as never);
          let ours = logic.init(input);
          expect(ours.effects).toEqual(effectsOf(actions));
          for (const next of events) {
            if (theirs.status !== "active") break;
            [theirs, actions] = transition(machine, theirs, next as never);
            ours = logic.step(ours.snapshot, next as never);
            expect(ours.snapshot.value).toEqual(theirs.value);
            expect(ours.snapshot.context).toEqual(theirs.context);
            expect(ours.snapshot.status).toBe(theirs.status);
            expect(ours.effects).toEqual(effectsOf(actions));
          }
        }),
        { seed: 91, numRuns: name === "controller" ? 60 : 150 },
      );
    },
  );

  it("leaves the snapshot it was given as it was: the same step twice gives the same", () => {
    const { logic, input } = pairs.policy;
    const { snapshot } = logic.init(input);
    const before = JSON.stringify(snapshot);
    const event = eventsOf("policy")[0] as never;
    const first = logic.step(snapshot, event);
    const second = logic.step(snapshot, event);
    expect(JSON.stringify(snapshot)).toBe(before);
    expect(JSON.stringify(second)).toBe(JSON.stringify(first));
  });

  it("keeps contexts plain JSON, so that they can be written down and read back", () => {
    for (const { logic, input } of Object.values(pairs)) {
      const { context } = logic.init(input).snapshot;
      expect(JSON.parse(JSON.stringify(context))).toEqual(context);
    }
  });

  it("refuses a machine that does anything but effects and timers", () => {
    const loud = createMachine({ entry: ({ event }) => event, initial: "a", states: { a: {} } });
    expect(() => logicOf(loud, undefined as never).init(undefined as never)).toThrow(/is not data/);
  });

  it("stops when a machine is left in an error, and says which", () => {
    const machine = createMachine({ id: "lost", initial: "a", states: { a: {} } });
    const logic = logicOf(machine, undefined as never);
    const { snapshot } = logic.init(undefined as never);
    const event = { type: "xstate.error.actor.child", error: new Error("no such child") };
    expect(() => logic.step(snapshot, event as never)).toThrow(/machine lost: .*no such child/);
  });

  it("stops when a machine breaks, and says which", () => {
    const broken = setup({
      actions: {
        [effectAction]: () => {},
      },
    }).createMachine({
      id: "brittle",
      on: {
        go: {
          actions: {
            type: effectAction,
            params: () => {
              throw new Error("no such thing");
            },
          },
        },
      },
    });
    const logic = logicOf(broken, undefined as never);
    const { snapshot } = logic.init(undefined as never);
    expect(() => logic.step(snapshot, { type: "go" } as never)).toThrow(/no such thing/);
  });
});

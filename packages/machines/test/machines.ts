/** The machines of all roles as data, for tests that look at them as graphs. */
import {
  checkpointMachine,
  controllerMachine,
  membershipMachine,
  nodeMachine,
  policyMachine,
  rolloutMachine,
} from "@muster/machines/internal";
import type { AnyStateMachine, StateNode } from "xstate";

/** Every machine by its id. */
export const allMachines: Readonly<Record<string, AnyStateMachine>> = {
  controller: controllerMachine,
  membership: membershipMachine,
  policy: policyMachine,
  rollout: rolloutMachine,
  checkpoint: checkpointMachine,
  node: nodeMachine,
};

/** The states below a node in document order, without the node itself. */
export function statesOf(node: StateNode): StateNode[] {
  return Object.values(node.states).flatMap((child) => [child, ...statesOf(child)]);
}

/** The states of a machine that have no states of their own. */
export function leavesOf(machine: AnyStateMachine): StateNode[] {
  return statesOf(machine.root).filter((node) => Object.keys(node.states).length === 0);
}

/** Path of a state inside its machine, e.g. `work.generating`. */
export function pathOf(node: StateNode): string {
  return node.path.join(".");
}

/** The events that a node itself has a word on, timers and immediate transitions apart. */
export function ownEvents(node: StateNode): string[] {
  return [...node.transitions.keys()].filter((event) => event !== "" && !event.startsWith("xstate."));
}

/** The events that a state or one of its ancestors has a word on. */
export function handledEvents(node: StateNode): Set<string> {
  return new Set([...ownEvents(node), ...(node.parent ? handledEvents(node.parent) : [])]);
}

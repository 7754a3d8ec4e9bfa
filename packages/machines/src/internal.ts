/** The second entry point, for tests, the simulator and benches: what no other package needs at work. */
export { checkpointMachine } from "./checkpoint/checkpoint-machine.ts";
export { control } from "./controller/control.ts";
export { type ControllerPhase, controllerMachine, controllerPhases } from "./controller/controller-machine.ts";
export { initialControllerState } from "./controller/state.ts";
export { logicOf } from "./from-xstate.ts";
export { membershipMachine } from "./membership/membership-machine.ts";
export { nodeMachine } from "./node/node-machine.ts";
export { policyMachine } from "./policy/policy-machine.ts";
export { chunksOf, rolloutMachine } from "./rollout/rollout-machine.ts";

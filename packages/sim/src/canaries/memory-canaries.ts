/** Bugs about training state in memory. */
import type { ControllerEvent, ControllerState } from "@muster/machines/controller";
import type { Scenario } from "../cluster/scenario.ts";
import { type Canary, repeated } from "./canary.ts";
import { logicBug } from "./logic-bug.ts";

/** One policy replica, two checkpoint actors that keep each step, and few checkpoints on disk. */
function withMemory(scenario: Scenario): Scenario {
  const { config } = scenario;
  const replicas = { ...config.replicas, policy: 1, checkpoint: Math.max(2, config.replicas.checkpoint) };
  const initReplicas = { ...config.initReplicas, policy: 1 };
  const checkpoint = { ...config.checkpoint, everySteps: 0, memoryEvery: 1 };
  return {
    ...scenario,
    config: { ...config, replicas, initReplicas, checkpoint },
    work: { ...scenario.work, memoryBytes: 2 ** 40 },
  };
}

const losses = (scenario: Scenario) =>
  repeated(scenario, 30_000, (atMs) => ({ kind: "kill-all", role: "policy", atMs, isSeen: true }));

/** True when a life ends. */
const isEnd = ({ type }: ControllerEvent): boolean => type === "verdict.dead" || type === "process.exited";

/** Nothing is in memory any more, as far as the controller knows. */
function withNothingHeld(state: ControllerState): ControllerState {
  const members = Object.entries(state.members).map(([id, member]) => [
    id,
    member.memory ? { ...member, memory: { ...member.memory, held: null } } : member,
  ]);
  return { ...state, members: Object.fromEntries(members) };
}

/** Canaries in what the controller makes of memory. */
export const memoryCanaries: readonly Canary[] = [
  logicBug("memory-not-used", "what checkpoint actors keep in memory is forgotten when somebody dies", {
    profile: "kills",
    seedsMax: 20,
    shape: withMemory,
    stage: losses,
    line: { keeps: (after, _, event) => (isEnd(event) ? withNothingHeld(after) : after) },
  }),
];

/** The decisions of a controller: its machine, its tables, its plan. Nobody else loads them. */

export { scriptPhaseOf } from "../phases/script-phase.ts";
export {
  type ControllerContext,
  controllerLogic,
  controllerSnapshotOf,
  phaseOf,
} from "./controller-machine.ts";
export type {
  AnnounceEffect,
  AnswerEffect,
  CommandEffect,
  ControllerEffect,
  ControllerEvent,
  ElectedEvent,
  FilledEvent,
  FoundCheckpoint,
  ReportOf,
  Rules,
  TickEvent,
  VerdictEvent,
} from "./events.ts";
export type { FleetHealth, FleetRank, FleetReplica, FleetState } from "./fleet/fleet-state.ts";
export { isCordoned } from "./fleet/fleet-state.ts";
export { missingOf } from "./fleet/plan-fleet.ts";
export { processesOf, ranksOf } from "./fleet/ranks.ts";
export { imbalanceOf, ledgerOf } from "./groups/ledger.ts";
export { isFillNews } from "./groups/stream-room.ts";
export { mayPass, mayWait } from "./patience.ts";
export { type ControllerPlan, planOf } from "./plan.ts";
export { foreseenFlaw } from "./settings.ts";
export { allMembersOf, type ControllerState, countOf, type Member, membersOf } from "./state.ts";
export { enginesOf } from "./step/fingerprints.ts";
export type { Fill } from "./step/step-state.ts";
export { samplersOf } from "./weights/sampler-engines.ts";

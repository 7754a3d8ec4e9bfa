/** What trainers say of their mesh and of the running attempt. Facts into the tables, nothing decided. */
import { announce, type Change, type ReportOf } from "../events.ts";
import { type ControllerState, type Mesh, meshMembersOf } from "../state.ts";
import { withMissed, withoutAbsences } from "./absences.ts";
import { enginesOf, fingerprintOf, refuseOtherBits } from "./fingerprints.ts";

/** A member joined the communicator of the epoch. Pure. */
export function applyBuilt(state: ControllerState, event: ReportOf<"mesh.built">): Change<ControllerState> {
  const { mesh } = state;
  if (mesh.state !== "building" || event.body.epoch !== mesh.epoch || mesh.built.includes(event.from))
    return { state, effects: [] };
  const { engine } = event.body;
  const engines = engine ? { engines: { ...mesh.engines, [event.from]: engine } } : {};
  const built = { ...mesh, ...engines, built: [...mesh.built, event.from] };
  const next = { ...state, mesh: built };
  if (built.built.length < mesh.members.length) return { state: next, effects: [] };
  const refused = refuseOtherBits(next);
  if (refused) return refused;
  const fingerprint = fingerprintOf(built);
  const ready: Mesh = { ...withoutAbsences(built), state: "ready", ...(fingerprint ? { fingerprint } : {}) };
  return {
    state: { ...state, mesh: ready },
    effects: [announce("mesh.changed", { epoch: mesh.epoch, members: [...mesh.members], ...enginesOf(ready) })],
  };
}

/** A member could not join: the epoch is of no use. Pure. */
export function applyMeshFailed(state: ControllerState, event: ReportOf<"mesh.failed">): Change<ControllerState> {
  if (event.body.epoch !== state.mesh.epoch) return { state, effects: [] };
  const detail = `epoch ${event.body.epoch}: ${event.from} could not join: ${event.body.cause}`;
  return {
    state: {
      ...state,
      mesh: { ...withMissed(state, event), state: "broken", dueAtMs: state.nowMs + state.plan.timing.commandMs / 5 },
    },
    effects: [announce("alarm.raised", { alarm: "mesh", detail })],
  };
}

/** A member's vote on the running attempt; votes on others change nothing. Pure. */
export function applyVoted(state: ControllerState, event: ReportOf<"step.voted">): Change<ControllerState> {
  const { step, attempt, epoch, vote, finite, sections, stats, cause, missing, unreadable, sketch } = event.body;
  const run = state.step;
  const isCurrent =
    run.state === "running" && run.step === step && run.attempt === attempt && epoch === state.mesh.epoch;
  const isRank = meshMembersOf(state).some(({ id }) => id === event.from);
  if (!isCurrent || !isRank || run.votes[event.from]) return { state, effects: [] };
  const votes = {
    ...run.votes,
    [event.from]: {
      ...{ vote, finite, sections, stats: stats ?? null, cause: cause ?? "", missing: missing ?? [] },
      ...(unreadable ? { unreadable } : {}),
      ...(sketch ? { sketch } : {}),
    },
  };
  return { state: { ...state, step: { ...run, votes } }, effects: [] };
}

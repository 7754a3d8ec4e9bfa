/**
 * The watchdog on progress (semantics 6.12): when no step is committed and no group finished for a long time, it first says so, then evicts
 * who holds the job up, then rebuilds, then goes back to the newest checkpoint, and at last ends the job with what it knows. It waits for as
 * long as somebody is missing, and that time does not count.
 */
import { listText } from "@muster/base";
import { valuesOf } from "../table/table.ts";
import { goBack } from "./checkpoints/plan-restore.ts";
import { announce, type Change, command } from "./events.ts";
import { releaseLease } from "./groups/leases.ts";
import { crowd } from "./members/crowd.ts";
import { evict } from "./orders.ts";
import { isPhaseOver } from "./phases/plan-phase.ts";
import { arrived, jobStage, spentMsOf } from "./progress.ts";
import { type ControllerState, endingWith, type Member, membersOf, meshMembersOf } from "./state.ts";

const lastStage = 5;

/** Does what is due by the time without progress. Each stage is done once. Pure. */
export function planWatchdog(state: ControllerState): Change<ControllerState> | null {
  const { progress, plan, nowMs } = state;
  if (state.ending || state.stopped) return null;
  const isShort = isSomebodyMissing(state) || isPhaseOver(state);
  // Who comes at last gets all of the time before it can be blamed. An absence is noted once: what changes at every tick fills the journal.
  if (isShort !== progress.isShort) {
    const { progress: counted } = arrived(state);
    return { state: { ...state, progress: { ...counted, isShort } }, effects: [] };
  }
  if (isShort) return null;
  const waitedMs = spentMsOf(state);
  const stages = (ms: number): number => Math.floor(ms / plan.health.progressMs);
  // Members are judged by the time since the last one came, and the job by all of it: deaths in a row do not put its end off for ever.
  const ofJob = Math.min(lastStage, stages(waitedMs));
  const due = ofJob >= jobStage ? ofJob : Math.min(jobStage - 1, stages(nowMs - progress.atMs));
  if (due <= progress.stage) return null;
  const stage = due < jobStage ? progress.stage + 1 : Math.max(jobStage, progress.stage + 1);
  const marked = { ...state, progress: { ...progress, stage } };
  const done = actOf(marked, stage);
  const detail = `no committed step and no finished group for ${Math.round(waitedMs)} ms at step ${state.step.step}: ${done.says}`;
  return { state: done.state, effects: [announce("alarm.raised", { alarm: "progress", detail }), ...done.effects] };
}

/** Before the first mesh, and without a policy and a rollout replica that stay, nobody is to blame: the job stays up and waits for them. */
function isSomebodyMissing(state: ControllerState): boolean {
  const { staying } = crowd.of(state.members);
  return state.mesh.epoch === 0 || staying.policy === 0 || staying.rollout === 0;
}

interface Act extends Change<ControllerState> {
  readonly says: string;
}

function actOf(state: ControllerState, stage: number): Act {
  const blamed = holdingUp(state);
  const names = listText([...new Set(blamed.map(({ id }) => id))]) || "nobody";
  // Nobody is to blame for a full stream: whoever is evicted, or what begins anew, finds it full again.
  if (state.heldBack && stage < lastStage) return { state, effects: [], says: "the groups stream is full" };
  if (stage === 1) return { state, effects: [], says: `waiting for ${names}` };
  if (stage === 2) {
    const [first] = blamed;
    const out = first ? evict(state, [first], "holds the job up") : { state, effects: [] };
    return { ...out, says: first ? `${first.id} is evicted` : "no member is to blame" };
  }
  if (stage === 3) return { ...rebuilt(state), says: "leases, orders and the mesh begin anew" };
  const awaited = state.heldBack ? "room in the groups stream" : names;
  const reason = `no progress at step ${state.step.step}; it waited for ${awaited}`;
  if (stage === 4 && state.wentBackAt === null)
    return { ...restored(state, reason), says: "the job goes back to its newest checkpoint" };
  return {
    state: endingWith(state, "failed", reason),
    effects: [],
    says: "the job is ended",
  };
}

/** Everything that waits for an answer is forgotten and planned anew. */
function rebuilt(state: ControllerState): Change<ControllerState> {
  const members = Object.fromEntries(
    Object.values(state.members).map((member) => [member.id, { ...member, order: null, retryAtMs: state.nowMs }]),
  );
  const fresh: ControllerState = {
    ...state,
    members,
    mesh: { ...state.mesh, state: state.mesh.epoch === 0 ? state.mesh.state : "broken", dueAtMs: state.nowMs },
    step: { ...state.step, dueAtMs: state.nowMs },
  };
  return Object.keys(fresh.leases).reduce<Change<ControllerState>>(
    (change, leaseId) => {
      const next = releaseLease(change.state, leaseId, { reason: "the job makes no progress", failure: null });
      return { state: next.state, effects: [...change.effects, ...next.effects] };
    },
    { state: fresh, effects: [] },
  );
}

function restored(state: ControllerState, reason: string): Change<ControllerState> {
  const { step, attempt, state: phase } = state.step;
  const computing = phase === "running" ? meshMembersOf(state) : [];
  const body = { step, attempt, epoch: state.mesh.epoch, reason };
  const back = goBack({ ...state, wentBackAt: step }, reason);
  return {
    state: back.state,
    effects: [...computing.map((member) => command(member, "step.discard", body)), ...back.effects],
  };
}

/** Whom the job waits for, the likeliest first: silent voters, late joiners of a mesh, unanswered orders, the oldest lease. Pure. */
function holdingUp(state: ControllerState): readonly Member[] {
  const { step, mesh } = state;
  const inMesh = meshMembersOf(state);
  if (step.state === "running") return inMesh.filter(({ id }) => !step.votes[id]);
  if (mesh.state === "building") return inMesh.filter(({ id }) => !mesh.built.includes(id));
  const policies = membersOf(state, "policy").filter(({ order }) => order !== null);
  if (policies.length > 0) return policies;
  const leases = [...valuesOf(state.leases)].sort((a, b) => a.dueAtMs - b.dueAtMs);
  const holders = leases.flatMap(({ holder }) => state.members[holder] ?? []);
  return holders.length > 0 ? holders : membersOf(state, "rollout").filter(({ order }) => order !== null);
}

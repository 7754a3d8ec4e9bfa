/**
 * What is done about slow members (semantics 6.10, reliability B4, L8): a trainer is named first, and only one that
 * has taken at least twice as long as the others for twenty steps is evicted, because they wait for it in every step.
 */
import { keptFold } from "../../table/fold.ts";
import { announce, type Change, type ControllerEffect } from "../events.ts";
import { evict } from "../orders.ts";
import { type ControllerState, type Member, meshMembersOf, type Pace } from "../state.ts";
import { paceOf, paceSteps } from "./paces.ts";

const reportWindow = 10;
const reportAfter = 5;

/** Names who has become slow or is no longer, and evicts who is far too slow. Pure. */
export function planStragglers(state: ControllerState): Change<ControllerState> | null {
  if (state.ending || state.step.state === "running") return null;
  const reported = report(state);
  const lame = meshMembersOf(reported.state).find((member) => isFarTooSlow(reported.state, member));
  // Only a mesh of three or more has a median that can be exceeded so far, and two that share its work are faster than three that wait.
  if (!lame) return reported.effects.length > 0 ? reported : null;
  const out = evict(reported.state, [lame], `took at least twice the median time in each of ${paceSteps} steps`);
  return { state: out.state, effects: [...reported.effects, ...out.effects] };
}

/** Late steps of the last ones, and whether they say something new of their member. */
function wordOn({ steps, isReported }: Pace): {
  readonly late: number;
  readonly isSlow: boolean;
  readonly isNews: boolean;
} {
  const late = steps.slice(-reportWindow).filter((step) => step !== "even").length;
  const isSlow = late >= reportAfter;
  return { late, isSlow, isNews: isSlow !== isReported && !(isReported && late > 0) };
}

// no mutant: where nobody is news, nobody is found
const isAnyNews = keptFold<Pace, boolean>({ empty: false, of: (pace) => wordOn(pace).isNews, join: (a, b) => a || b });

function report(state: ControllerState): Change<ControllerState> {
  if (!isAnyNews.of(state.paces)) return { state, effects: [] };
  const effects: ControllerEffect[] = [];
  const changed: Record<string, Pace> = {};
  for (const member of Object.values(state.members)) {
    const pace = state.paces[member.id];
    if (pace?.incarnation !== member.incarnation) continue;
    const { late, isSlow, isNews } = wordOn(pace);
    if (!isNews) continue;
    changed[member.id] = { ...pace, isReported: isSlow };
    const detail = isSlow
      ? `${member.id} was far slower than the other ${member.role} replicas in ${late} of the last ${reportWindow} steps`
      : `${member.id} keeps up again`;
    effects.push(announce("alarm.raised", { alarm: "straggler", detail }));
  }
  return effects.length > 0
    ? { state: { ...state, paces: { ...state.paces, ...changed } }, effects }
    : { state, effects };
}

function isFarTooSlow(state: ControllerState, member: Member): boolean {
  const { steps } = paceOf(state, member);
  return steps.length === paceSteps && steps.every((step) => step === "twice");
}

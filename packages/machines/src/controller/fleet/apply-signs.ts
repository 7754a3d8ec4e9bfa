/** Signs of a failure to come turn into a cordon before the failure (semantics 6.14), as long as another node takes new work. */
import { announce, type Change, type ReportOf } from "../events.ts";
import { type ControllerState, membersOf } from "../state.ts";
import { isCordoned, withFleet } from "./fleet-state.ts";

/**
 * What a node sees on its host. New signs keep new work away from it; that they are gone changes nothing, because only an operator can
 * say that a host is well again. Pure.
 */
export function applySigns(state: ControllerState, event: ReportOf<"node.signs">): Change<ControllerState> {
  const { from, body } = event;
  const node = state.fleet.nodes[from];
  if (!node) return { state, effects: [] };
  const seen = withFleet(state, { nodes: { ...state.fleet.nodes, [from]: { ...node, signs: body.signs } } });
  const fresh = body.signs.filter(({ kind }) => !node.signs.some((known) => known.kind === kind));
  if (fresh.length === 0) return { state: seen, effects: [] };
  const isOut = isCordoned(state, from);
  const mayCordon = !isOut && state.plan.failure.cordonOnSigns && hasOther(state, from);
  const next = mayCordon ? withFleet(seen, { cordoned: [...seen.fleet.cordoned, from] }) : seen;
  const what = fresh.map(({ detail }) => detail).join("; ");
  const then = mayCordon
    ? `it gets no new work until muster uncordon ${from}`
    : isOut
      ? "it gets no new work already"
      : `it goes on; muster cordon ${from} keeps new work away`;
  const detail = `${from} may fail soon: ${what}; ${then}`;
  return { state: next, effects: [announce("alarm.raised", { alarm: "signs", detail })] };
}

/** True when another node would take new work. */
function hasOther(state: ControllerState, id: string): boolean {
  return membersOf(state, "node").some(
    (member) => member.id !== id && state.fleet.nodes[member.id] !== undefined && !isCordoned(state, member.id),
  );
}

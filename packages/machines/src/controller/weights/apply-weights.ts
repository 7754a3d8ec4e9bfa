/** What replicas say of versions: got, kept, or not to be had. Facts into the tables, nothing decided. */
import type { VersionKey } from "../../version-key.ts";
import { noteDamage } from "../checkpoints/damaged-checkpoint.ts";
import { announce, type Change, type ReportOf } from "../events.ts";
import { noteFailedStart } from "../fleet/failed-starts.ts";
import { answered } from "../orders.ts";
import { arrived, type ControllerState, type Member, withMember } from "../state.ts";
import { applyKept, applyNotKept, noteMiss } from "./plan-memory.ts";

/**
 * A replica acknowledged the digests of a version. The first one that was asked for it makes the initial weights. What was overtaken by
 * newer words of the replica, or by a new lineage, is dropped and counted. Pure.
 */
export function applyHeld(state: ControllerState, event: ReportOf<"weights.held">): Change<ControllerState> {
  const { lineage, version, sections } = event.body;
  const member = state.members[event.from];
  if (!member) return { state, effects: [] };
  if (member.role === "checkpoint") return applyKept(state, event);
  const isOvertaken =
    lineage !== state.restore.lineage || (member.held?.lineage === lineage && member.held.version > version);
  if (isOvertaken) {
    const { dropped } = state;
    return { state: { ...state, dropped: { ...dropped, stale: dropped.stale + 1 } }, effects: [] };
  }
  const isInitial = member.order?.kind === "weights.initialize" && isAnswered(member, event.body);
  const weights = isInitial ? { lineage, version, sections } : state.weights;
  const isAsked = sections.every((section) => {
    const asked = weights?.sections.find(({ name }) => name === section.name);
    return asked === undefined || weights?.version !== version || asked.digest === section.digest;
  });
  if (!isAsked) {
    const detail = `${member.id} reports version ${version} with a digest that is not the committed one`;
    return {
      state: withMember(state, member.id, { held: null, order: null }),
      effects: [announce("alarm.raised", { alarm: "digest", detail })],
    };
  }
  return {
    state: withMember(arrived({ ...state, weights }), member.id, {
      held: { lineage, version },
      addresses: event.body.addresses,
      ...(isAnswered(member, event.body) ? answered : {}),
    }),
    effects: [],
  };
}

/** A replica could not get a version: it is asked again after a pause, or, when its checkpoint is damaged, for another one. Pure. */
export function applyFailed(before: ControllerState, event: ReportOf<"weights.failed">): Change<ControllerState> {
  const { role } = before.members[event.from] ?? {};
  if (role === "checkpoint") return applyNotKept(before, event);
  const state = role === "policy" ? noteMiss(before, event.body) : before;
  const detail = `${event.from} could not get version ${event.body.version}: ${event.body.cause}`;
  const effects = [announce("alarm.raised", { alarm: "weights", detail })];
  const member = state.members[event.from];
  if (!member || !isAnswered(member, event.body)) return { state, effects };
  const retryAtMs = state.nowMs + state.plan.timing.commandMs / 5;
  const asked = withMember(state, event.from, { ...answered, retryAtMs });
  const isFirst = member.order?.kind === "weights.initialize";
  const next = isFirst ? noteFailedStart(asked, "policy", event.body.cause) : asked;
  const { damage } = event.body;
  return (damage && noteDamage(next, member, damage)) ?? { state: next, effects };
}

/** True when a report about a version answers the order that a member has. */
function isAnswered({ order }: Member, { lineage, version }: VersionKey): boolean {
  if (order === null || !("version" in order) || order.kind === "checkpoint.save") return false;
  return order.version === version && order.lineage === lineage;
}

/** What replicas say of versions: got, kept, or not to be had. Facts into the tables, nothing decided. */
import { type Body, type Section, sectionsOfPart } from "@muster/protocol";
import type { VersionKey } from "../../version-key.ts";
import { noteDamage } from "../checkpoints/damaged-checkpoint.ts";
import { announce, type Change, type ReportOf } from "../events.ts";
import { noteFailedStart } from "../fleet/failed-starts.ts";
import { answered } from "../orders.ts";
import { arrived } from "../progress.ts";
import { type ControllerState, type Member, withMember, withStale } from "../state.ts";
import { addressesIn } from "./parts.ts";
import { applyKept, applyNotKept, noteMiss } from "./plan-memory.ts";
import { noteEngine } from "./sampler-engines.ts";

/**
 * A replica acknowledged the digests of a version. The first one that was asked for it makes the initial weights. What was overtaken by
 * newer words of the replica, or by a new lineage, is dropped and counted, and so is a version that is not committed: once it is, whoever said
 * that too early would count as a holder of what nobody compared. Pure.
 */
export function applyHeld(state: ControllerState, event: ReportOf<"weights.held">): Change<ControllerState> {
  const member = state.members[event.from];
  if (!member) return { state, effects: [] };
  if (member.role === "checkpoint") return applyKept(state, member, event.body);
  const noted = noteEngine(state, member, event.body.engine);
  const held = noteHeld(noted.state, noted.state.members[event.from] ?? member, event);
  return { state: held.state, effects: [...noted.effects, ...held.effects] };
}

function noteHeld(state: ControllerState, member: Member, event: ReportOf<"weights.held">): Change<ControllerState> {
  const { lineage, version, sections } = event.body;
  const isInitial = member.order?.kind === "weights.initialize" && isAnswered(member, event.body);
  const isOvertaken =
    lineage !== state.restore.lineage || (member.held?.lineage === lineage && member.held.version > version);
  const isEarly = !isInitial && (state.weights === null || version > state.weights.version);
  if (isOvertaken || isEarly) return { state: withStale(state), effects: [] };
  const weights = isInitial ? { lineage, version, sections } : state.weights;
  if (weights?.version === version && !isCommitted(weights.sections, sections, member)) {
    const detail = `${member.id} reports version ${version} with a digest that is not the committed one`;
    return {
      state: withMember(state, member.id, { held: null, order: null }),
      effects: [announce("alarm.raised", { alarm: "digest", detail })],
    };
  }
  return {
    state: withMember(arrived({ ...state, weights }), member.id, {
      held: { lineage, version },
      ...addressesIn(event.body, member),
      ...(member.isFollowing ? { isFollowing: false } : {}),
      ...(isAnsweredBy(member, event.body) ? answered : {}),
    }),
    effects: [],
  };
}

/** Who is to publish a part has done so once it says where that part is. */
function isAnsweredBy(member: Member, body: Body<"weights.held">): boolean {
  const isPart = member.order?.kind === "weights.publish";
  return isAnswered(member, body) && !(isPart && (body.training ?? body.addresses).length === 0);
}

/** True when sections are those of the committed version: a trainer has all of them, a sampler the weights. */
function isCommitted(committed: readonly Section[], held: readonly Section[], { role }: Member): boolean {
  const isOne = ({ name, digest }: Section): boolean =>
    committed.some((section) => section.name === name && section.digest === digest);
  const needed = role === "policy" ? committed : sectionsOfPart(committed, "serving");
  return held.every(isOne) && needed.every(({ name }) => held.some((section) => section.name === name));
}

/** A replica could not get a version: it is asked again after a pause, or, when its checkpoint is damaged, for another one. Pure. */
export function applyFailed(before: ControllerState, event: ReportOf<"weights.failed">): Change<ControllerState> {
  const { role } = before.members[event.from] ?? {};
  if (role === "checkpoint") return applyNotKept(before, event);
  const state = role === "policy" ? noteMiss(before, event.body) : before;
  const isPart = before.members[event.from]?.order?.kind === "weights.publish";
  const tried = isPart ? "publish the training part of" : "get";
  const detail = `${event.from} could not ${tried} version ${event.body.version}: ${event.body.cause}`;
  const effects = [announce("alarm.raised", { alarm: "weights", detail })];
  const member = state.members[event.from];
  if (!member || !isAnswered(member, event.body)) return { state, effects };
  const retryAtMs = state.nowMs + state.plan.timing.commandMs / 5;
  const asked = withMember(state, event.from, {
    ...answered,
    retryAtMs,
    ...(member.isFollowing ? { isFollowing: false } : {}),
  });
  const isFirst = member.order?.kind === "weights.initialize";
  const next = isFirst ? noteFailedStart(asked, "policy", event.body.cause) : asked;
  const { damage } = event.body;
  return (damage && noteDamage(next, member, damage)) ?? { state: next, effects };
}

/** True when a report about a version answers the order that a member has. */
function isAnswered({ order }: Member, { lineage, version }: VersionKey): boolean {
  return order !== null && "version" in order && order.version === version && order.lineage === lineage;
}

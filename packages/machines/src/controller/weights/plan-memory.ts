/**
 * Has checkpoint actors take the training state of the newest steps into memory, so that losing every policy replica costs no more than the
 * steps since. Such an order is no order that anybody waits for: it hinders neither a checkpoint nor an end, and who leaves it without an
 * answer is asked again later.
 */
import type { Body, Section } from "@muster/protocol";
import { isSame } from "../../version-key.ts";
import { announce, type Change, type ControllerEffect, command, type ReportOf } from "../events.ts";
import { type ControllerState, holdsCurrent, type Member, membersOf, withMember, withStale } from "../state.ts";
import { keepersOf, memoryOf, withMemory } from "./memory.ts";
import type { KeptState } from "./memory-state.ts";
import { addressesIn, trainersServing, wholeHolders } from "./parts.ts";
import { rotated } from "./weight-sources.ts";

/** Time until who has no room is asked again. */
const tooLargeMs = 600_000;

/** Most doublings of the pause after an order that was not fulfilled. */
const doublingsMax = 6;

/** So often in a row a policy replica may fail to get what is kept before that counts for nothing. */
const missesMax = 3;

/** Orders the committed version where what is kept is older than `checkpoint.memory_every` allows. Pure. */
export function planMemory(state: ControllerState): Change<ControllerState> | null {
  const { weights, plan, step } = state;
  if (!weights) return null;
  const late = membersOf(state, "checkpoint").filter((member) => isLate(state, member));
  if (late.length > 0) return { state: late.reduce(withFailure, state), effects: [] };
  const committed = step.step - 1;
  const behind = membersOf(state, "checkpoint").filter((member) => isAskable(state, member));
  if (behind.length === 0) return null;
  const trainers = trainersServing(state).filter(({ health }) => health !== "suspect");
  const holders = [...trainers, ...keepersOf(state, weights)];
  if (holders.length === 0) return null;
  const { lineage, version, sections } = weights;
  const asked = {
    step: committed,
    lineage,
    version,
    sections,
    dueAtMs: state.nowMs + plan.timing.pullMs + plan.timing.commandMs,
  };
  const effects: ControllerEffect[] = [];
  let next = state;
  for (const member of behind) {
    next = withMemory(next, member.id, { asked });
    const sources = wholeHolders(rotated(holders, member));
    effects.push(command(member, "weights.pull", { lineage, version, sections: [...sections], holders: sources }));
  }
  return { state: next, effects };
}

function isLate({ nowMs }: ControllerState, member: Member): boolean {
  const { asked } = memoryOf(member);
  return asked !== null && asked.dueAtMs <= nowMs;
}

/** True when a checkpoint actor is to take the committed version into memory now. Pure. */
export function isAskable(state: ControllerState, member: Member): boolean {
  const { held, asked, retryAtMs } = memoryOf(member);
  const isIdle = member.health === "healthy" && asked === null && retryAtMs <= state.nowMs;
  return isIdle && isOlder(state, held) && !isSame(held, state.weights);
}

/** True when a checkpoint actor will take the committed version into memory, now or once it has what it takes at present. Pure. */
export function isMemoryBehind(state: ControllerState, member: Member): boolean {
  const { held, asked, retryAtMs, isTooLarge } = memoryOf(member);
  if (member.order?.kind === "replica.stop" || member.health === "draining") return false;
  return !(isTooLarge && retryAtMs > state.nowMs) && isOlder(state, asked ?? held);
}

/** True when kept state is older than the newest that memory should have. */
function isOlder({ weights, plan, step, ending }: ControllerState, kept: KeptState | null): boolean {
  const committed = step.step - 1;
  if (ending || plan.memoryEvery === 0 || committed === 0) return false;
  return (
    (kept?.step ?? -1) < committed - (committed % plan.memoryEvery) ||
    (kept !== null && kept.lineage !== weights?.lineage)
  );
}

/** A checkpoint actor has what it was asked for, with the digests. What it was not asked for, or not any more, counts for nothing. Pure. */
export function applyKept(state: ControllerState, member: Member, body: Body<"weights.held">): Change<ControllerState> {
  const { id } = member;
  const { asked } = memoryOf(member);
  if (!asked || !isSame(asked, body)) return { state: withStale(state), effects: [] };
  if (!haveSameDigests(asked.sections, body.sections)) {
    const detail = `${id} keeps version ${body.version} with a digest that is not the committed one`;
    const effects = [announce("alarm.raised", { alarm: "digest", detail })];
    return { state: withMemory(withFailure(state, member), id, { held: null }), effects };
  }
  const { dueAtMs: _, ...held } = asked;
  const memory = { held, asked: null, failures: 0, isTooLarge: false, misses: 0 };
  const serving = addressesIn(body, member);
  return { state: withMemory(withMember(state, id, serving), id, memory), effects: [] };
}

/** A checkpoint actor could not take what it was asked for. It is said once in a row, and not of what newer versions have overtaken. Pure. */
export function applyNotKept(
  state: ControllerState,
  { from, body }: ReportOf<"weights.failed">,
): Change<ControllerState> {
  const member = state.members[from];
  if (!member) return { state, effects: [] };
  const { asked, failures, isTooLarge: wasTooLarge } = memoryOf(member);
  if (!isSame(asked, body)) return { state, effects: [] };
  const isTooLarge = body.isTooLarge === true;
  const isNews = isTooLarge ? !wasTooLarge : failures === 0 && isSame(body, state.weights);
  const detail = `${from} keeps no training state in memory: ${body.cause}`;
  const failed = withFailure(state, member);
  const next = withMemory(failed, from, isTooLarge ? { isTooLarge, retryAtMs: state.nowMs + tooLargeMs } : {});
  return { state: next, effects: isNews ? [announce("alarm.raised", { alarm: "memory-copy", detail })] : [] };
}

/** The order is forgotten; the next one comes after a pause that doubles. */
function withFailure(state: ControllerState, member: Member): ControllerState {
  const failures = memoryOf(member).failures + 1;
  const pauseMs = (state.plan.timing.commandMs / 5) * 2 ** Math.min(failures - 1, doublingsMax);
  return withMemory(state, member.id, { asked: null, failures, retryAtMs: state.nowMs + pauseMs });
}

/**
 * A policy replica could not get a version that nobody but checkpoint actors hold. After a few times in a row what they hold counts for
 * nothing, so that the job goes on from what there is besides. Pure.
 */
export function noteMiss(state: ControllerState, body: Body<"weights.failed">): ControllerState {
  const { source } = state.restore;
  const isBeginning = state.weights === null && isSame(state.restore, body);
  const beginning = isBeginning && source.kind === "memory" ? source : null;
  const isHeld = membersOf(state, "policy").some((member) => holdsCurrent(state, member));
  if (!beginning && (isHeld || !isSame(state.weights, body))) return state;
  return keepersOf(state, beginning ?? state.weights).reduce((next, member) => {
    const misses = memoryOf(member).misses + 1;
    return withMemory(next, member.id, misses >= missesMax ? { misses: 0, held: null } : { misses });
  }, state);
}

function haveSameDigests(asked: readonly Section[], found: readonly Section[]): boolean {
  return asked.every(({ name, digest }) => found.find((section) => section.name === name)?.digest === digest);
}

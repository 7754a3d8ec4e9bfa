/**
 * Training state in the memory of checkpoint actors, as a source: who has the committed version, and what the job can go back to without the disk.
 * Memory is never durable: nothing is purged and nobody may leave because of it.
 */
import { isSame, type VersionKey } from "../../version-key.ts";
import { type ControllerState, type Member, membersOf, withMember } from "../state.ts";
import { emptyMemory, type KeptState, type MemberMemory } from "./memory-state.ts";

/** The memory of a checkpoint actor. Pure. */
export function memoryOf({ memory }: Member): MemberMemory {
  return memory ?? emptyMemory;
}

/** The state with the memory of one member changed. Pure. */
export function withMemory(state: ControllerState, id: string, patch: Partial<MemberMemory>): ControllerState {
  const member = state.members[id];
  return member ? withMember(state, id, { memory: { ...memoryOf(member), ...patch } }) : state;
}

/** Checkpoint actors that hold a version under this name and to whom others are sent; a suspect serves on, but nobody is sent to it. Pure. */
export function keepersOf(state: ControllerState, key: VersionKey | null): readonly Member[] {
  return membersOf(state, "checkpoint").filter(
    (member) => member.health !== "suspect" && member.addresses.length > 0 && isSame(memoryOf(member).held, key),
  );
}

/** What to do about training state that no policy replica holds. */
export type Recovery =
  /** Whoever comes pulls the committed version, or it is about to be known whether they can. */
  | { readonly kind: "wait" }
  /** The newest that is kept, older than the committed version or of an older lineage. */
  | { readonly kind: "memory"; readonly kept: KeptState }
  | { readonly kind: "disk" };

/**
 * Where the job gets its training state from when no policy replica holds it: the committed version from memory; else, when somebody healthy is
 * about to have that, a moment later; else the newest that is kept, unless a checkpoint is newer. Only when a suspect has the best is
 * it waited for: it is heard of again, or out, soon. Pure.
 */
export function recoveryOf(state: ControllerState): Recovery {
  const { weights } = state;
  if (keepersOf(state, weights).length > 0) return { kind: "wait" };
  const members = membersOf(state, "checkpoint");
  const isNear = members.some(
    (member) => member.health === "healthy" && weights !== null && isSame(memoryOf(member).asked, weights),
  );
  if (isNear) return { kind: "wait" };
  const useful = members.filter((member) => isUseful(state, memoryOf(member).held) && member.addresses.length > 0);
  const trusted = useful.filter(({ health }) => health !== "suspect");
  const [best] = trusted.flatMap((member) => memoryOf(member).held ?? []).sort((a, b) => b.step - a.step);
  if (best) return { kind: "memory", kept: best };
  return useful.length > 0 ? { kind: "wait" } : { kind: "disk" };
}

/** What a checkpoint has, too, is as well taken from memory. */
function isUseful({ checkpoints }: ControllerState, held: KeptState | null): boolean {
  return held !== null && (checkpoints.saved === null || held.step >= checkpoints.saved.step);
}

/** True when the job is to begin a lineage with what was kept, and nobody keeps it any more. Pure. */
export function isBeginningLost(state: ControllerState): boolean {
  const { source } = state.restore;
  if (state.weights || source.kind !== "memory") return false;
  return !membersOf(state, "checkpoint").some((member) => isSame(memoryOf(member).held, source));
}

/** Forgets what lies behind a step that the job goes back to, and every order. Pure. */
export function withoutLater(state: ControllerState, step: number): ControllerState {
  return membersOf(state, "checkpoint").reduce((next, member) => {
    const { held, asked } = memoryOf(member);
    if (asked === null && (held === null || held.step <= step)) return next;
    return withMemory(next, member.id, { held: held && held.step <= step ? held : null, asked: null });
  }, state);
}

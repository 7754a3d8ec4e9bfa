/**
 * A checkpoint that can not be restored: it is said, and the job goes back to a copy of it, or to the next older one, or to what is newer in memory, in a
 * new lineage. What was trained since is trained again, from the stored trajectories where they are still there. Without any other the job ends at once.
 */
import type { Body } from "@muster/protocol";
import { announce, type Change } from "../events.ts";
import {
  type ControllerState,
  endingWith,
  type Fallback,
  type KeptCheckpoint,
  type Member,
  membersOf,
} from "../state.ts";
import { recoveryOf } from "../weights/memory.ts";
import { goBack } from "./plan-restore.ts";

/** Damaged checkpoints that are remembered. */
const damagedMax = 16;

/** Most characters of a cause, and of all of them, in the reason of an end. */
const causeMax = 160;
const reasonMax = 1_600;

/** What a replica says of the checkpoint that it was to restore. */
type Damage = NonNullable<Body<"weights.failed">["damage"]>;

/**
 * The checkpoint that is to be restored is damaged or gone. What one host says of its disk is no word about the disk of another.
 *
 * @returns `null` when it is nothing but somebody who does not have it: others are asked. Pure.
 */
export function noteDamage(state: ControllerState, by: Member, said: Damage): Change<ControllerState> | null {
  const { checkpoints, fallback, restore } = state;
  const { saved } = checkpoints;
  if (state.weights || state.ending || restore.source.kind !== "checkpoint") return null;
  const { path } = restore.source;
  const damage = asToldOf(path, state, said);
  if (damage.kind === "gone" && by.host !== saved?.host) return turnToCopy(state, by);
  const { reason } = damage;
  const left = leftAfter(state, by, path, damage);
  if (left === null) return turnToCopy(state, by);
  const damaged = [...fallback.damaged, { path, reason, host: by.host }].slice(-damagedMax);
  const [next = null, ...older] = left;
  const marked: ControllerState = {
    ...state,
    checkpoints: { ...checkpoints, saved: next },
    fallback: { ...fallback, damaged, older },
  };
  const detail = `checkpoint ${nameOf(path)} can not be restored on ${by.host}: ${reason}`.slice(0, reasonMax);
  const effects = [announce("alarm.raised", { alarm: "damaged-checkpoint", detail })];
  if (!next) return { state: ended(marked, damaged), effects };
  const back = goBackFrom(marked, `checkpoint ${nameOf(path)} is damaged`);
  return { state: back.state, effects: [...effects, ...back.effects] };
}

/** Damage of a folder with another manifest than any copy has that was reported durable is none of the checkpoint: on that host it is gone. */
function asToldOf(path: string, state: ControllerState, damage: Damage): Damage {
  if (damage.manifestDigest === undefined || copyRead(path, state, damage)) return damage;
  return { kind: "gone", reason: "its manifest is not the one that was reported durable" };
}

/** The copy in a folder that was read, by its manifest; copies in journals of programs that did not keep that may be any. */
function copyRead(path: string, state: ControllerState, { manifestDigest }: Damage): KeptCheckpoint | undefined {
  const copies = copiesOf(state).filter((copy) => copy.path === path);
  const of = (digest: string | undefined) => copies.find((copy) => copy.manifestDigest === digest);
  return manifestDigest === undefined ? undefined : (of(manifestDigest) ?? of(undefined));
}

/**
 * What there is to go back to without the copy that a host found damaged: the one that it says it read, or, where the manifest can not be read, its own.
 * `null` when it has none, and means a folder of that name which may be its own: others can read theirs.
 */
function leftAfter(
  state: ControllerState,
  { host }: Member,
  path: string,
  damage: Damage,
): readonly KeptCheckpoint[] | null {
  const { saved } = state.checkpoints;
  const known = copiesOf(state);
  const own = known.find((copy) => copy.path === path && copy.host === host);
  const read = copyRead(path, state, damage) ?? own;
  const [told] = known;
  const left = known.filter((copy) => copy.path !== path || !isSameFolder(copy, read ?? told));
  if (read) return left;
  // It has to be somebody on another host; where nobody is there, an older one is better than to wait, and to wait is better than to end the job.
  const canOther = membersOf(state, "policy").some((member) => known.some((copy) => isOf(copy, saved, member)));
  return canOther || left.length === 0 ? null : left;
}

/** The newest checkpoint with its copies, and the older ones. */
function copiesOf({ checkpoints: { saved }, fallback }: ControllerState): readonly KeptCheckpoint[] {
  return saved ? [saved, ...fallback.older] : [];
}

/** True when a copy of a checkpoint is on the host of a member. */
function isOf(copy: KeptCheckpoint, saved: KeptCheckpoint | null, { host }: Member): boolean {
  return copy.step === saved?.step && copy.version === saved.version && copy.host === host;
}

/** Two writers wrote one folder when it has one name and one manifest: that says when and in which term it was written. */
function isSameFolder(a: KeptCheckpoint, b: KeptCheckpoint | undefined): boolean {
  const isOne = a.manifestDigest === undefined || a.manifestDigest === b?.manifestDigest;
  return a === b || (a.path === b?.path && isOne);
}

function goBackFrom(state: ControllerState, reason: string): Change<ControllerState> {
  const recovery = recoveryOf(state);
  return goBack(state, reason, recovery.kind === "memory" ? recovery.kept : null);
}

/**
 * Whoever does not find the newest checkpoint may be on a host with a copy of it, which has another name when another term or attempt made it. The
 * host of the newest may be lost, so the job goes on from that copy; `null` when there is none.
 */
function turnToCopy(state: ControllerState, { host }: Member): Change<ControllerState> | null {
  const { checkpoints, fallback } = state;
  const { saved } = checkpoints;
  const copy = fallback.older.find(
    (each) =>
      each.step === saved?.step && each.version === saved.version && each.host === host && each.path !== saved.path,
  );
  if (!saved || !copy) return null;
  const older = [saved, ...fallback.older.filter((each) => each !== copy)];
  const turned = { ...state, checkpoints: { ...checkpoints, saved: copy }, fallback: { ...fallback, older } };
  const reason = `checkpoint ${nameOf(saved.path)} is not on ${host}, which has ${nameOf(copy.path)} of the same version`;
  return goBackFrom(turned, reason);
}

/** To begin at the source of the job would be to lose it: that is for an operator to decide. */
function ended(state: ControllerState, damaged: Fallback["damaged"]): ControllerState {
  const each = damaged.map(({ path, reason }) => `${nameOf(path)}: ${reason.slice(0, causeMax)}`).reverse();
  const reason = `no checkpoint is left that can be restored: ${each.join("; ")}`.slice(0, reasonMax);
  return endingWith(state, "failed", reason);
}

function nameOf(path: string): string {
  return path.split("/").at(-1)?.slice(0, causeMax) ?? path;
}

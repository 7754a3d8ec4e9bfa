/**
 * How many hosts must have a checkpoint before it counts (`checkpoint.quorum`). Until then nothing is purged, removed or announced because of it, and
 * the job would not go back to it.
 */
import { listText } from "@muster/base";
import { announce, type Change } from "../events.ts";
import { type Checkpoints, type ControllerState, type KeptCheckpoint, type Member, membersOf } from "../state.ts";
import { mayCount, withNamed } from "./superseded.ts";

/** Copies that are remembered while they do not count, at most. */
const copiesMax = 64;

/** How many hosts must have a checkpoint. Pure. */
function quorumOf({ plan }: ControllerState): number {
  return plan.checkpointQuorum ?? 1;
}

/** What is known of a checkpoint once one more actor has written it: its copies when they are enough, and the state that remembers them. Pure. */
export function withCopy(
  state: ControllerState,
  copy: KeptCheckpoint,
): { readonly state: ControllerState; readonly counted: readonly KeptCheckpoint[] } {
  const others = (state.checkpoints.copies ?? []).filter(
    ({ step, host, path }) => step !== copy.step || host !== copy.host || path !== copy.path,
  );
  if (!mayCount(state.checkpoints, copy))
    return { state: { ...state, checkpoints: withNamed(state.checkpoints, [copy]) }, counted: [] };
  const copies = [...others, copy].slice(-copiesMax);
  const same = copies.filter(({ step, version }) => step === copy.step && version === copy.version);
  if (hostsOf(same).length >= quorumOf(state)) return { state, counted: same };
  return { state: { ...state, checkpoints: { ...state.checkpoints, copies } }, counted: [] };
}

/** What stays remembered of copies once the checkpoint of a step counts: newer ones wait on, and older ones may go. Pure. */
export function copiesAfter({ copies = [], ...checkpoints }: Checkpoints, step: number): Checkpoints {
  const newer = copies.filter((copy) => copy.step > step);
  const named = withNamed(
    checkpoints,
    copies.filter((copy) => copy.step < step),
  );
  return { ...named, ...(newer.length > 0 ? { copies: newer } : {}) };
}

/** Where checkpoints stand when the job goes back: copies of the line that is left behind never count, and may go. Pure. */
export function withoutCopies({ copies = [], countsFrom: _, set: __, ...checkpoints }: Checkpoints): Checkpoints {
  return { ...withNamed(checkpoints, copies), wantedStep: null };
}

/** True when the host of a checkpoint actor has the checkpoint of a step, which does not count yet: it need not write it again. Pure. */
export function hasCopy({ checkpoints }: ControllerState, { host }: Member, step: number): boolean {
  return (checkpoints.copies ?? []).some((copy) => copy.step === step && copy.host === host);
}

/** Copies of what other hosts still write: with theirs they would count, so they stay until that is known. Pure. */
export function awaitedCopies(state: ControllerState): readonly KeptCheckpoint[] {
  const savers = membersOf(state, "checkpoint");
  return (state.checkpoints.copies ?? []).filter((copy) =>
    savers.some(
      ({ host, order }) => host !== copy.host && order?.kind === "checkpoint.save" && order.version === copy.version,
    ),
  );
}

/** True when the hosts of the checkpoint actors, with those that have a copy, are enough for a checkpoint of this step. Pure. */
export function isQuorumThere(state: ControllerState, step: number): boolean {
  return quorumOf(state) === 1 || isEnough(state, step, membersOf(state, "checkpoint"));
}

/** True when the hosts of these actors, with those that have a copy, are enough for a checkpoint of this step. Pure. */
export function isEnough(state: ControllerState, step: number, those: readonly Member[]): boolean {
  return hostsFor(state, step, those).length >= quorumOf(state);
}

/** Says once that a checkpoint is wanted which can not count, for want of hosts; again only after there were enough. Pure. */
export function planQuorum(state: ControllerState): Change<ControllerState> | null {
  const { isShort, ...checkpoints } = state.checkpoints;
  const { wantedStep } = checkpoints;
  if (wantedStep === null || state.plan.checkpointReplicas === 0) return null;
  const isThere = isQuorumThere(state, wantedStep);
  if (isThere === !isShort) return null;
  if (isThere) return { state: { ...state, checkpoints }, effects: [] };
  const detail = `the checkpoint of step ${wantedStep} does not count: ${quorumText(state, wantedStep)}`;
  return {
    state: { ...state, checkpoints: { ...checkpoints, isShort: true } },
    effects: [announce("alarm.raised", { alarm: "checkpoint-quorum", detail })],
  };
}

/** What a checkpoint lacks to count, and what to do about it. Pure. */
export function quorumText(state: ControllerState, step: number): string {
  const hosts = hostsFor(state, step, membersOf(state, "checkpoint"));
  const found = hosts.length > 0 ? `${hosts.length} (${listText(hosts)})` : "none";
  return `checkpoint.quorum = ${quorumOf(state)} hosts must have it, and of those with a checkpoint actor or a copy there is ${found}; start "muster checkpoint" on another host`;
}

function hostsFor(state: ControllerState, step: number, those: readonly Member[]): readonly string[] {
  const copies = (state.checkpoints.copies ?? []).filter((copy) => copy.step === step);
  return hostsOf([...those, ...copies]);
}

function hostsOf(those: readonly { readonly host: string }[]): readonly string[] {
  return [...new Set(those.map(({ host }) => host))];
}

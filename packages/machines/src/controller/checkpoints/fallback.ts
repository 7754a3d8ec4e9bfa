/** Checkpoints beside the newest one: what the job can go back to when that one is damaged, and what it must know to do so. */
import type { Body, GroupReceipt } from "@muster/protocol";
import { countsOf } from "../groups/ledger.ts";
import { groupsIn } from "../sizes.ts";
import {
  type ControllerState,
  type CoveredStep,
  type Fallback,
  type KeptCheckpoint,
  membersOf,
  type StepGroups,
} from "../state.ts";
import { awaitedCopies } from "./quorum.ts";

/** Versions that are kept, at most; folders in one order. */
const pinsMax = 64;

/**
 * What is left to go back to once a newer checkpoint is durable; `covered` are the steps that it covers. There is always one: retention leaves the
 * one before the newest even when it keeps but one, because that one was pinned. Pure.
 */
export function fallbackAfter(
  state: ControllerState,
  newest: KeptCheckpoint,
  covered: readonly (readonly [string, readonly GroupReceipt[]])[],
): Fallback {
  const { fallback, plan } = state;
  const older = versionsToKeep(state, [newest, ...knownOf(state)], Math.max(2, plan.checkpointKeep)).slice(1);
  const oldest = older.at(-1)?.step ?? newest.step;
  const steps = [
    ...Object.entries(fallback.covered),
    ...covered.map(([key, receipts]) => [key, coveredStep(receipts, groupsIn(state, Number(key)))] as const),
  ];
  return { ...fallback, older, covered: Object.fromEntries(steps.filter(([key]) => Number(key) > oldest)) };
}

/** Another checkpoint actor has written a checkpoint that is kept, too: that is one more to go back to. Pure. */
export function noteCopy(state: ControllerState, copy: KeptCheckpoint): ControllerState {
  const known = knownOf(state);
  const isKept = known.some(({ step, version }) => step === copy.step && version === copy.version);
  const isKnown = known.some(({ path, host }) => path === copy.path && host === copy.host);
  if (!isKept || isKnown) return state;
  const { older } = state.fallback;
  const newer = older.filter(({ step }) => step > copy.step);
  return { ...state, fallback: { ...state.fallback, older: [...newer, copy, ...older.slice(newer.length)] } };
}

/**
 * What retention must leave besides what it keeps by itself: what the job would go back to once one more is written, and copies that others are about to
 * make count. Pure.
 */
export function pinsOf(state: ControllerState): Pick<Body<"checkpoint.save">, "pinned" | "fallbacks"> {
  const { saved } = state.checkpoints;
  const kept = saved ? versionsToKeep(state, knownOf(state), Math.max(1, state.plan.checkpointKeep - 1)) : [];
  const paths = new Set([...kept, ...awaitedCopies(state)].map(({ path }) => path));
  const fallbacks = [...paths].filter((path) => path !== saved?.path).slice(0, pinsMax);
  return { ...(saved ? { pinned: saved.path } : {}), ...(fallbacks.length > 0 ? { fallbacks } : {}) };
}

/** The groups of a step of this size whose trajectories are gone: what has a result is sampled again, what was given up stays so. Pure. */
export function purgedGroups(size: number, { givenUp }: CoveredStep): StepGroups {
  const indices = Array.from({ length: size }, (_, index) => index);
  const queue = indices.filter((index) => !givenUp.includes(index)).map((index) => ({ index, attempt: 0 }));
  return { queue, receipts: {}, quarantined: givenUp };
}

function coveredStep(receipts: readonly GroupReceipt[], groupsPerStep: number): CoveredStep {
  const finished = new Set(receipts.map(({ index }) => index));
  const givenUp = Array.from({ length: groupsPerStep }, (_, index) => index).filter((index) => !finished.has(index));
  return { ...countsOf(receipts), givenUp };
}

/** The newest checkpoint and what there is besides, newest first. */
function knownOf({ checkpoints, fallback }: ControllerState): readonly KeptCheckpoint[] {
  return checkpoints.saved ? [checkpoints.saved, ...fallback.older] : [];
}

/**
 * Checkpoints of the newest `count` versions, with all copies. While there are checkpoint actors on several hosts, those that only one host has do
 * not count: an older one stays until a newer one is on two disks (reliability S26). Shards are in one folder that all hosts share.
 */
function versionsToKeep(
  state: ControllerState,
  checkpoints: readonly KeptCheckpoint[],
  count: number,
): readonly KeptCheckpoint[] {
  const steps = [...new Set(checkpoints.map(({ step }) => step))];
  const hostsOf = (step: number) => distinctHosts(checkpoints.filter((checkpoint) => checkpoint.step === step));
  const areDisksOwn = state.plan.checkpointShards === undefined && distinctHosts(membersOf(state, "checkpoint")) > 1;
  const isTwice = (step: number) => !areDisksOwn || hostsOf(step) > 1;
  const safe = steps.findIndex(isTwice);
  const kept = steps.slice(0, Math.min(pinsMax, Math.max(count, safe < 0 ? steps.length : safe + 1)));
  return checkpoints.filter(({ step }) => kept.includes(step));
}

const distinctHosts = (those: readonly { readonly host: string }[]): number =>
  new Set(those.map(({ host }) => host)).size;

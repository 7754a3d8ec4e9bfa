/**
 * Holders that were lost, perhaps by something from outside: a SIGKILL, a host or a way to it that is gone. Such a loss counts against the work like
 * any other, because what a prompt does to its holder may look the same, unless others are lost like that as well: then it is a storm, in which every
 * holder dies now and then, and four of these losses count as one. So a group that ends its holders is given up after at most
 * 4 × (attempts − 1) + 1 of them, and one that has bad luck is not given up after three (S20). For trainers that end over a batch the same counts as
 * for samplers; any member that is lost is a sign of a storm.
 */
import type { EvidenceKind } from "@muster/protocol";
import type { AtMs } from "../at-ms.ts";
import type { ControllerState } from "../state.ts";
import { isSuspect } from "./idle-samplers.ts";
import { leasesOf } from "./lease-table.ts";
import type { OutsideLosses } from "./outside-losses-state.ts";

/** Time in which losses are counted. */
const windowMs = 600_000;

/** Losses that are remembered. */
const lossesMax = 64;

/** Losses in a storm that weigh as much as one failure. */
const lossesPerFailure = 4;

/** Signs of an end that name no cause. */
const silentEnds: readonly EvidenceKind[] = ["disconnect", "silence", "peers", "deadline", "replaced"];

/** True when a member may have been lost by something from outside; `isKill` is known of ends that were seen. Pure. */
export function isFromOutside({
  by,
  isKill = false,
}: {
  readonly by: EvidenceKind;
  readonly isKill?: boolean;
}): boolean {
  return isKill || silentEnds.includes(by);
}

/** Remembers such a loss. One over a suspect says nothing of a storm: the suspect may be its cause. Pure. */
export function noteOutsideLoss(state: ControllerState, id: string): ControllerState {
  const attempts = state.evaluation?.attempts ?? {};
  const items = leasesOf(state, id).flatMap(([, lease]) => lease.items);
  if (items.some((item) => isSuspect(item) || (item.purpose === "eval" && (attempts[item.chunk] ?? 0) > 0)))
    return state;
  return { ...state, outsideLosses: withTime(recentOf(state), state.nowMs) };
}

/** Takes back what is explained: those who ended at these times were not lost by something from outside. Pure. */
export function withoutOutsideLosses(state: ControllerState, explained: readonly AtMs[]): ControllerState {
  const { outsideLosses } = state;
  if (!outsideLosses || explained.length === 0) return state;
  return { ...state, outsideLosses: outsideLosses.filter((atMs) => !explained.includes(atMs)) };
}

/** Times with the present one added, as many as are remembered. Pure. */
export function withTime(times: readonly AtMs[], nowMs: AtMs): readonly AtMs[] {
  return [...times.filter((atMs) => nowMs - atMs < windowMs), nowMs].slice(-lossesMax);
}

function recentOf({ outsideLosses = [], nowMs }: ControllerState): readonly AtMs[] {
  return outsideLosses.filter((atMs) => nowMs - atMs < windowMs);
}

const none: OutsideLosses = { count: 0, light: 0 };

/**
 * One more of these losses. It is in a storm when others were lost as often.
 *
 * @param own - How many of the losses that are remembered are this work's own. Of a group that is sampled it is the first one, because later ones are
 *   those of a suspect.
 */
export function withOutsideLoss(state: ControllerState, before: OutsideLosses = none, own = 1): OutsideLosses {
  const count = before.count + 1;
  const others = recentOf(state).length - own;
  return { count, light: others >= Math.min(count, lossesMax - 1) ? count : before.light };
}

/** How many of the losses that are remembered happened at these times. Pure. */
export function countAmong(state: ControllerState, times: readonly AtMs[]): number {
  const recent = recentOf(state);
  return times.filter((atMs) => recent.includes(atMs)).length;
}

/** As how many failures so many losses count. Pure. */
export function failuresOf(losses: number, { light }: OutsideLosses = none): number {
  return losses - light + Math.ceil(light / lossesPerFailure);
}

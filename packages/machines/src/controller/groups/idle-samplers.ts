/**
 * Samplers that may get another lease. Of ten thousand nearly all have enough to do, and who has not is asked for after every input: so the last answer is
 * kept, and only those of whom something has changed since are looked at again. The answer follows from the state alone, whichever was asked about before.
 */
import type { WorkItem } from "@muster/protocol";
import { changedKeys } from "../../table/diff.ts";
import type { Table } from "../../table/table.ts";
import type { VersionKey } from "../../version-key.ts";
import type { ControllerState, Member } from "../state.ts";
import { holdersOf, loadOf, type OwnLease } from "./lease-table.ts";

/** Samplers that hold one version and have room. */
interface Idle extends VersionKey {
  readonly members: Map<string, Member>;
}

interface Answer {
  readonly members: ControllerState["members"];
  readonly holders: Table<readonly OwnLease[]>;
  readonly limit: number;
  readonly groupsMax: number;
}

const idleByVersion = new Map<string, Idle>();
const versionOf = new Map<string, string>();
// no mutant: of nobody the answer is the same, whatever the limits
let last: Answer = { members: {}, holders: {}, limit: 0, groupsMax: 0 };

/** Healthy samplers with fewer than the most leases, in order of arrival, as far as they hold a version that will do. Pure but for what it keeps. */
export function idleSamplers(state: ControllerState, willDo: (held: VersionKey) => boolean): readonly Member[] {
  const { leasesPerRollout: limit, leaseGroupsMax: groupsMax } = state.plan.limits;
  lookAt({ members: state.members, holders: holdersOf(state.leases), limit, groupsMax });
  const found: Member[] = [];
  for (const idle of idleByVersion.values()) if (willDo(idle)) found.push(...idle.members.values());
  return found.sort((a, b) => a.joinedSeq - b.joinedSeq);
}

/** True for a group that a holder failed over: it is leased alone, to a replica that holds nothing else. Pure. */
export function isSuspect(item: WorkItem): boolean {
  return item.purpose === "train" && item.attempt > 0;
}

function lookAt(now: Answer): void {
  const isAsBefore = now.limit === last.limit && now.groupsMax === last.groupsMax;
  const before = isAsBefore ? last : { ...now, members: {}, holders: {} };
  if (before !== last) {
    idleByVersion.clear();
    // no mutant: what they held then is looked up once more, and there they are not any more
    versionOf.clear();
  }
  for (const id of changedKeys(before.members, now.members)) lookAgain(now, id);
  for (const id of changedKeys(before.holders, now.holders)) lookAgain(now, id);
  last = now;
}

function lookAgain({ members, holders, limit, groupsMax }: Answer, id: string): void {
  const version = versionOf.get(id);
  if (version !== undefined) {
    const idle = idleByVersion.get(version);
    idle?.members.delete(id);
    // no mutant: one without members gives nobody
    if (idle?.members.size === 0) idleByVersion.delete(version);
    // no mutant: what it held is looked up once more, and there it is not any more
    versionOf.delete(id);
  }
  const member = members[id];
  if (member?.role !== "rollout" || member.health !== "healthy" || !member.held) return;
  const own = holders[id] ?? [];
  if (loadOf(own, groupsMax) >= limit || own.some(([, { items }]) => items.some(isSuspect))) return;
  const { lineage, version: number } = member.held;
  const key = `${lineage}.${number}`;
  const idle = idleByVersion.get(key) ?? { lineage, version: number, members: new Map() };
  idle.members.set(id, member);
  idleByVersion.set(key, idle);
  versionOf.set(id, key);
}

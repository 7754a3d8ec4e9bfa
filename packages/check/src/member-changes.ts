/** Which members a decision changed: found once for all checkers, since in a large job most of them stay as they are. */
import { changedKeys } from "@muster/machines";
import type { ControllerState } from "@muster/machines/controller";

type Members = ControllerState["members"];
type Member = Members[string];

/** One row of the table, before and after. */
export interface MemberChange {
  readonly id: string;
  readonly was: Member | undefined;
  readonly now: Member | undefined;
}

let last: { readonly before: Members; readonly after: Members; readonly changes: readonly MemberChange[] } | null =
  null;

/** The rows that are not what they were. Pure; remembers its last answer. */
export function changesOf(before: ControllerState, after: ControllerState): readonly MemberChange[] {
  if (before.members === after.members) return [];
  if (last?.before === before.members && last.after === after.members) return last.changes;
  const ids = [...new Set(changedKeys(before.members, after.members))];
  const changes = ids.map((id) => ({ id, was: before.members[id], now: after.members[id] }));
  last = { before: before.members, after: after.members, changes };
  return changes;
}

/** Members of these lives that were there and are not any more. Pure. */
export function lostIn(before: ControllerState, after: ControllerState): readonly Member[] {
  return changesOf(before, after).flatMap(({ was, now }) => (was && was.incarnation !== now?.incarnation ? was : []));
}

/** Members of lives that were not there before. Pure. */
export function joinedIn(before: ControllerState, after: ControllerState): readonly Member[] {
  return changesOf(before, after).flatMap(({ was, now }) => (now && was?.incarnation !== now.incarnation ? now : []));
}

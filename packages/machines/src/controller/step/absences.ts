/**
 * Trainers that live, answer and never arrive where the others wait for them: on a path that only the data plane takes, or too slow for every
 * deadline. Who waits says whom it missed. One voice may lie, so a member is absent when most of the others missed it; and when most of the members
 * were missed the fault is between them, and nobody's.
 */
import { withoutEntry } from "../../table/table.ts";
import type { Change, ReportOf } from "../events.ts";
import { evict } from "../orders.ts";
import { type ControllerState, type Mesh, meshMembersOf } from "../state.ts";
import type { FailedEpoch } from "./step-state.ts";

/** As many epochs in a row a member may be absent from. */
const absencesMax = 3;

/** Takes in what one member says, once in an epoch. Pure. */
export function withMissed(state: ControllerState, { from, body }: ReportOf<"mesh.failed">): Mesh {
  const { mesh } = state;
  const { reporters, missed } = mesh.failed ?? { reporters: [], missed: {} };
  const isRank = meshMembersOf(state).some(({ id }) => id === from);
  if (!isRank || reporters.includes(from)) return mesh;
  const named = [...new Set(body.missing)].filter((id) => id !== from && mesh.members.includes(id));
  const more = Object.fromEntries(named.map((id) => [id, (missed[id] ?? 0) + 1]));
  return { ...mesh, failed: { reporters: [...reporters, from], missed: { ...missed, ...more } } };
}

/** Counts who was absent from the epoch that failed, and evicts who was for too long; `null` when there is nothing to count. Pure. */
export function countAbsences(state: ControllerState): Change<ControllerState> | null {
  const { failed, ...mesh } = state.mesh;
  if (mesh.state !== "broken" || !failed) return null;
  const absent = absentFrom(mesh, failed);
  const before = mesh.absences ?? {};
  const absences = Object.fromEntries(absent.map((id) => [id, (before[id] ?? 0) + 1]));
  const late = meshMembersOf(state).filter(({ id }) => (absences[id] ?? 0) >= absencesMax);
  const left = late.reduce((table, { id }) => withoutEntry(table, id), absences);
  const counted = {
    ...state,
    mesh: Object.keys(left).length > 0 ? { ...mesh, absences: left } : withoutAbsences(mesh),
  };
  return evict(counted, late, `not there in ${absencesMax} meshes in a row, as most of the others say`);
}

/** A mesh of which all members arrived. Pure. */
export function withoutAbsences({ absences: _, failed: __, ...mesh }: Mesh): Mesh {
  return mesh;
}

function absentFrom({ members }: Mesh, { missed }: FailedEpoch): readonly string[] {
  const absent = members.filter((id) => (missed[id] ?? 0) * 2 > members.length - 1);
  return absent.length * 2 <= members.length ? absent : [];
}

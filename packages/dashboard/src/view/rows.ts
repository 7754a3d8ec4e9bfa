/** The replicas of a job, one row each: those that are members, and those that should run and do not. Pure. */
import type { JobStatus } from "@muster/protocol";

/** One replica. Times in milliseconds; `null` where it is not known. */
export interface ReplicaRow {
  readonly id: string;
  readonly role: string;
  readonly health: string;
  readonly isCordoned: boolean;
  /** True when a node runs it, so that an operator can replace or kill it. */
  readonly isManaged: boolean;
  readonly node: string | null;
  readonly devices: readonly string[];
  readonly version: number | null;
  readonly phase: string | null;
  /** The order that it has not answered. */
  readonly order: string | null;
  readonly beatAgeMs: number | null;
  readonly rssBytes: number | null;
  readonly deaths: number;
  /** The last that was said of it. */
  readonly why: string;
}

const wellHealths: ReadonlySet<string> = new Set(["healthy", "draining"]);

/** True for a replica that works, or leaves because it was told to. */
export const isWell = ({ health }: ReplicaRow): boolean => wellHealths.has(health);

/** Lists them, those who are not well first. */
export function rowsOf(status: JobStatus, why: Readonly<Record<string, string>>): readonly ReplicaRow[] {
  const managed = new Map(status.fleet.replicas.map((replica) => [replica.id, replica]));
  const known = new Set(status.members.map(({ id }) => id));
  const members = status.members.map((member): ReplicaRow => {
    const replica = managed.get(member.id);
    const { id, role, version, phase, order, beatAgeMs, rssBytes } = member;
    const health = (replica?.health ?? member.health).toLowerCase();
    const isCordoned = replica?.cordoned === true || status.fleet.nodes.some((node) => node.id === id && node.cordoned);
    const place = { node: replica?.node ?? null, devices: replica?.devices ?? [], deaths: replica?.deaths ?? 0 };
    const said = { version, phase, order, beatAgeMs, rssBytes, why: why[id] ?? "" };
    return { id, role, health, isCordoned, isManaged: replica !== undefined, ...place, ...said };
  });
  // Who is healthy is a member; its row may be one that the status leaves out.
  const absent = status.fleet.replicas.filter(({ id, health }) => !known.has(id) && health !== "HEALTHY");
  const missing = absent.map(({ id, role, health, cordoned, node, devices, deaths }): ReplicaRow => {
    const unknown = { version: null, phase: null, order: null, beatAgeMs: null, rssBytes: null };
    const is = { health: health.toLowerCase(), isCordoned: cordoned, isManaged: true };
    return { id, role, ...is, node, devices, deaths, ...unknown, why: why[id] ?? "" };
  });
  const all = [...members, ...missing];
  return [...all.filter((row) => !isWell(row)), ...all.filter(isWell)];
}

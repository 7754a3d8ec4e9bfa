/**
 * The roles of replicas: what each is and can. Names of roles stand here, in the machine of the role and in its work; everything else asks the table. A
 * role that is added here is placed, watched, scaled, given devices and shown like the others.
 */

/** What is true of a role of replicas. */
export interface RoleTraits {
  /** What people call one of it. */
  readonly title: string;
  /** It pulls each committed version, and is well only when it has acknowledged the digests of that. */
  readonly holdsWeights: boolean;
  /** It shares memory or disk of one host with the others of such a role: they are placed there as long as a node of it has room. */
  readonly sharesHost: boolean;
  /** It keeps files on the disk of its host, and goes to no other one that does not share them. */
  readonly keepsFiles: boolean;
  /** The broker lets it read the trajectories of all. */
  readonly readsGroups: boolean;
  /** The broker lets it say trajectories of its own. */
  readonly drawsGroups: boolean;
  /** It stays on a node that ends until nobody of another role is left whom it serves. */
  readonly leavesLast: boolean;
  /** Multiple of `timing.dead_after` for which one may be silent: longer for who stops nobody by it. */
  readonly patience: number;
  /** One may consist of several ranks, which share its model. */
  readonly hasRanks: boolean;
}

/** The table. The order is that in which roles are shown, and in which their replicas get their places. */
export const roleTable = {
  policy: {
    title: "policy replica",
    holdsWeights: true,
    sharesHost: true,
    keepsFiles: false,
    readsGroups: true,
    drawsGroups: false,
    leavesLast: false,
    patience: 1,
    hasRanks: false,
  },
  rollout: {
    title: "rollout replica",
    holdsWeights: true,
    sharesHost: false,
    keepsFiles: false,
    readsGroups: false,
    drawsGroups: true,
    leavesLast: false,
    patience: 1.5,
    hasRanks: true,
  },
  checkpoint: {
    title: "checkpoint actor",
    holdsWeights: false,
    sharesHost: true,
    keepsFiles: true,
    readsGroups: false,
    drawsGroups: false,
    leavesLast: true,
    patience: 3,
    hasRanks: false,
  },
} as const satisfies Readonly<Record<string, RoleTraits>>;

/** What is true of a node, which runs replicas and is none. */
const nodeTraits: RoleTraits = {
  title: "node",
  holdsWeights: false,
  sharesHost: false,
  keepsFiles: false,
  readsGroups: false,
  drawsGroups: false,
  leavesLast: true,
  patience: 1.5,
  hasRanks: false,
};

/** A role that computes or keeps weights. */
export type ReplicaRole = keyof typeof roleTable;

/** The roles of replicas, in the order of the table. */
export const replicaRoles = Object.keys(roleTable) as [ReplicaRole, ...ReplicaRole[]];

/** What is true of a role of members. Pure. */
export function traitsOf(role: ReplicaRole | "node"): RoleTraits {
  return role === "node" ? nodeTraits : roleTable[role];
}

/** A value for each role of replicas. Pure. */
export function perRole<T>(make: (role: ReplicaRole) => T): { readonly [R in ReplicaRole]: T } {
  return Object.fromEntries(replicaRoles.map((role) => [role, make(role)])) as { readonly [R in ReplicaRole]: T };
}

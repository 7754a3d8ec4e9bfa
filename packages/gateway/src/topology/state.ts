/** What the coordinator knows: plain values that are never changed in place. Times are milliseconds of the coordinator's own clock. */

/** One process of a role, as it described itself when it registered. */
export interface RoleInfo {
  readonly role_name: string;
  readonly rank: number;
  readonly world_size: number | null;
  readonly ip: string | null;
  readonly port: number | null;
  readonly device_id: number | null;
  readonly metadata: Readonly<Record<string, unknown>>;
}

/** A registered process. */
export interface TopologyNode {
  readonly info: RoleInfo;
  /** The life of the process that holds the rank, where it said one. */
  readonly incarnation: string | null;
  readonly lastHeartbeat: number;
  readonly isAlive: boolean;
  /** Membership epoch at which it died; null while it lives. */
  readonly diedAt: number | null;
}

/** The processes of one role by rank. */
export type RoleNodes = ReadonlyMap<number, TopologyNode>;

/** One message about weights that are on their way. */
export interface WeightMeta {
  readonly names: readonly string[];
  readonly dtypes: readonly string[];
  readonly shapes: readonly (readonly number[])[];
  readonly group_name: string;
  readonly metadata?: Readonly<Record<string, unknown>>;
}

/** The messages about one update of weights. `""` is the update of clients that name none. */
export interface WeightUpdate {
  readonly entries: readonly WeightMeta[];
  /** Bytes of the entries as JSON. */
  readonly bytes: number;
  /** When something was added last. */
  readonly touched: number;
  /** Process that sends it, where it said so: its end ends the update. */
  readonly sender: string | null;
  /** How often it ended and began anew; only the unnamed one does. */
  readonly generation: number;
  /** Why nobody gets it any more; null while it is open. */
  readonly goneBecause: string | null;
}

/** A lock with a lease. */
export interface Lock {
  readonly owner: string;
  /** Rises with every acquisition, so that the holder of a lost lease can be told from the present one. */
  readonly token: number;
  readonly leaseMs: number;
  readonly until: number;
}

/** The newest version of weights of a group. It is withdrawn, and its number kept, when its source is gone. */
export interface WeightOffer {
  readonly version: number;
  readonly sender: string | null;
  /** How to get it, in the words of its source. */
  readonly manifest: Readonly<Record<string, unknown>> | null;
}

/** A port that a process was given. */
export interface PortLease {
  readonly ip: string;
  readonly port: number;
  readonly owner: string;
}

/** The whole state of the coordinator. */
export interface Topology {
  /** Rises whenever somebody joins, leaves, dies, lives again or changes what others read of it. */
  readonly epoch: number;
  /** In the order in which roles appeared first. */
  readonly roles: ReadonlyMap<string, RoleNodes>;
  readonly updates: ReadonlyMap<string, WeightUpdate>;
  readonly locks: ReadonlyMap<string, Lock>;
  readonly ports: readonly PortLease[];
  /** By group. */
  readonly offers: ReadonlyMap<string, WeightOffer>;
  /** Newest token of a lock. */
  readonly token: number;
  /** Membership epoch up to which deaths were told by `/health`. */
  readonly toldDeaths: number;
}

/** What the coordinator decides by; everything has a bound. */
export interface TopologyRules {
  readonly heartbeatTimeoutMs: number;
  /** Role to the role of its peers, e.g. `{ actor: "rollout" }`. */
  readonly roleMappings: Readonly<Record<string, string>>;
  readonly nodesMax: number;
  readonly updatesMax: number;
  readonly entriesMax: number;
  /** Of all open updates together. */
  readonly updateBytesMax: number;
  /** How long an update is kept that nobody adds to. */
  readonly updateTtlMs: number;
  readonly locksMax: number;
  /** Groups with an offer. */
  readonly offersMax: number;
  /** Bytes of the manifests of all offers together. */
  readonly offerBytesMax: number;
  /** Bytes of all metadata of nodes above 1 KiB together. */
  readonly metadataBytesMax: number;
  /** Ports that are given out. */
  readonly portsMax: number;
}

/** The rules of a coordinator that is told nothing. */
export const rulesDefault: TopologyRules = {
  heartbeatTimeoutMs: 30_000,
  roleMappings: { actor: "rollout" },
  nodesMax: 65_536,
  updatesMax: 256,
  entriesMax: 16_384,
  updateBytesMax: 64 * 2 ** 20,
  updateTtlMs: 300_000,
  locksMax: 1_024,
  offersMax: 1_024,
  offerBytesMax: 128 * 2 ** 20,
  metadataBytesMax: 64 * 2 ** 20,
  portsMax: 65_536,
};

/** Nobody yet. */
export const emptyTopology: Topology = {
  epoch: 0,
  roles: new Map(),
  updates: new Map(),
  locks: new Map(),
  ports: [],
  offers: new Map(),
  token: 0,
  toldDeaths: 0,
};

/** `{role}_{rank}`, as it is written in answers, locks and leases. */
export const nodeIdOf = (role: string, rank: number): string => `${role}_${rank}`;

/** A refusal: nothing was changed. */
export interface Refusal {
  readonly status: number;
  /** One sentence that names the field. */
  readonly message: string;
  readonly field?: string;
}

/** What an input led to: the next state and an answer, or a refusal. */
export type Outcome<A> = { readonly state: Topology; readonly answer: A } | { readonly refused: Refusal };

/** A refusal as an outcome. */
export function refuse(status: number, message: string, field?: string): { readonly refused: Refusal } {
  return { refused: field === undefined ? { status, message } : { status, message, field } };
}

/** A map with one entry set, or removed when the value is undefined. */
export function withEntry<K, V>(map: ReadonlyMap<K, V>, key: K, value: V | undefined): ReadonlyMap<K, V> {
  const next = new Map(map);
  if (value === undefined) next.delete(key);
  else next.set(key, value);
  return next;
}

/** The node of a rank, dead or alive. */
export function nodeAt(state: Topology, role: string, rank: number): TopologyNode | undefined {
  return state.roles.get(role)?.get(rank);
}

/** The living nodes of a role in rank order. */
export function aliveOf(state: Topology, role: string): readonly TopologyNode[] {
  return [...(state.roles.get(role)?.values() ?? [])]
    .filter(({ isAlive }) => isAlive)
    .sort((a, b) => a.info.rank - b.info.rank);
}

/** Every node, dead or alive, by role in order of appearance. */
export function allNodes(state: Topology): readonly TopologyNode[] {
  return [...state.roles.values()].flatMap((nodes) => [...nodes.values()]);
}

/** The living node of an id. Role names have underscores too, so the rank stands behind the last one. */
export function livingNode(state: Topology, nodeId: string): TopologyNode | undefined {
  const cut = nodeId.lastIndexOf("_");
  const node = nodeAt(state, nodeId.slice(0, cut), Number(nodeId.slice(cut + 1)));
  return node?.isAlive ? node : undefined;
}

const sizes = new WeakMap<object, number>();

/** Bytes of a value as JSON. Values of the state never change, so each is counted once. */
export function bytesOf(value: object): number {
  const known = sizes.get(value) ?? Buffer.byteLength(JSON.stringify(value));
  sizes.set(value, known);
  return known;
}

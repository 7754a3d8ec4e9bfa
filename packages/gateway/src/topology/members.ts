/** Who is there: registration, heartbeats, departures and deaths. */
import {
  allNodes,
  bytesOf,
  nodeAt,
  nodeIdOf,
  type Outcome,
  type RoleInfo,
  refuse,
  type Topology,
  type TopologyNode,
  type TopologyRules,
  withEntry,
} from "./state.ts";

/** What a process says of itself. */
export interface Registration extends Omit<RoleInfo, "rank"> {
  /** Null for any free one. */
  readonly rank: number | null;
  readonly incarnation: string | null;
}

/** What a registration is answered with. */
export interface Registered {
  readonly rank: number;
  readonly node_id: string;
  readonly message: string;
}

/**
 * Registers a process. Without a rank it gets the smallest that no living process holds; a rank of its own may be free, dead, or the
 * process's own from before, which is the same registration again.
 */
export function register(
  state: Topology,
  { incarnation, rank, ...said }: Registration,
  { now, rules }: { readonly now: number; readonly rules: TopologyRules },
): Outcome<Registered> {
  const own = rank ?? rankOfIncarnation(state, said.role_name, incarnation) ?? smallestFree(state, said.role_name);
  const held = nodeAt(state, said.role_name, own);
  const roomy = held === undefined ? withRoom(state, rules.nodesMax) : state;
  if (roomy === null)
    return refuse(507, `role_name: ${rules.nodesMax} processes are registered already; unregister those that are gone`);
  const metadataBytes = largeMetadata(state, said.metadata, held);
  if (metadataBytes > rules.metadataBytesMax)
    return refuse(
      507,
      `metadata: with these ${bytesOf(said.metadata)} bytes the metadata of all processes is above ${rules.metadataBytesMax}; give less`,
      "metadata",
    );
  if (held?.isAlive && !isSame(held, said, incarnation)) return refuse(409, takenText(held), "rank");
  const info: RoleInfo = { ...said, rank: own };
  const known = held?.isAlive === true && held.incarnation === (incarnation ?? held.incarnation);
  const again = known && JSON.stringify(held.info) === JSON.stringify(info);
  const node: TopologyNode = {
    info,
    incarnation: incarnation ?? (known ? held.incarnation : null),
    lastHeartbeat: now,
    isAlive: true,
    diedAt: null,
  };
  // Another life at the same rank: what the former one held is nobody's.
  const rest = held !== undefined && !known ? withoutPossessions(roomy, [nodeIdOf(info.role_name, own)]) : roomy;
  const answer = {
    rank: own,
    node_id: nodeIdOf(info.role_name, own),
    message: again ? "registered before" : "registered",
  };
  return { state: { ...withNode(rest, node), epoch: again ? state.epoch : state.epoch + 1 }, answer };
}

/** Removes a process and what it holds. With its life, it removes no other one that has the rank by now. */
export function unregister(
  state: Topology,
  {
    role,
    rank,
    incarnation = null,
  }: { readonly role: string; readonly rank: number; readonly incarnation?: string | null | undefined },
): Outcome<{ readonly message: string }> {
  const nodes = state.roles.get(role);
  const node = nodes?.get(rank);
  if (nodes === undefined || node === undefined) return unknown(role, rank);
  if (isAnother(node, incarnation)) return heldByAnother(node);
  const others = withEntry(nodes, rank, undefined);
  const roles = withEntry(state.roles, role, others.size > 0 ? others : undefined);
  const next = withoutPossessions({ ...state, roles, epoch: state.epoch + 1 }, [nodeIdOf(role, rank)]);
  return { state: next, answer: { message: `${nodeIdOf(role, rank)} is unregistered` } };
}

/** A sign of life. It brings a dead process back, unless another one holds its rank by now. */
export function heartbeat(
  state: Topology,
  { role, rank, incarnation }: { readonly role: string; readonly rank: number; readonly incarnation: string | null },
  now: number,
): Outcome<{ readonly revived: boolean }> {
  const node = nodeAt(state, role, rank);
  if (node === undefined) return unknown(role, rank);
  if (isAnother(node, incarnation)) return heldByAnother(node);
  const next = withNode(state, { ...node, lastHeartbeat: now, isAlive: true, diedAt: null });
  const revived = !node.isAlive;
  return { state: revived ? { ...next, epoch: state.epoch + 1 } : next, answer: { revived } };
}

/** Ids of those who live by the table and were silent for longer than the time-out. */
export function silentNodes(state: Topology, now: number, rules: TopologyRules): readonly string[] {
  return allNodes(state)
    .filter(({ isAlive, lastHeartbeat }) => isAlive && now - lastHeartbeat > rules.heartbeatTimeoutMs)
    .map(({ info }) => nodeIdOf(info.role_name, info.rank));
}

/** Marks processes as dead, and frees what they hold. */
export function bury(state: Topology, ids: readonly string[]): Topology {
  const epoch = state.epoch + 1;
  const dead = new Set(ids);
  const roles = new Map(state.roles);
  for (const [role, nodes] of roles) {
    const changed = [...nodes].map(([rank, node]): [number, TopologyNode] =>
      node.isAlive && dead.has(nodeIdOf(role, rank))
        ? [rank, { ...node, isAlive: false, diedAt: epoch }]
        : [rank, node],
    );
    roles.set(role, new Map(changed));
  }
  return withoutPossessions({ ...state, roles, epoch }, ids);
}

/** Frees locks, ports and updates of processes that are gone. */
function withoutPossessions(state: Topology, ids: readonly string[]): Topology {
  const gone = new Set(ids);
  const updates = new Map(state.updates);
  for (const [id, update] of updates)
    if (update.sender !== null && gone.has(update.sender) && update.goneBecause === null)
      updates.set(id, { ...update, entries: [], bytes: 0, goneBecause: `its sender ${update.sender} is gone` });
  return {
    ...state,
    updates,
    locks: new Map([...state.locks].filter(([, { owner }]) => !gone.has(owner))),
    ports: state.ports.filter(({ owner }) => !gone.has(owner)),
    offers: withdrawnBy(state.offers, gone),
  };
}

/** The number of a version outlives its source, so that the next one is higher. */
function withdrawnBy(offers: Topology["offers"], gone: ReadonlySet<string>): Topology["offers"] {
  const isGone = (sender: string | null): boolean => sender !== null && gone.has(sender);
  return new Map(
    [...offers].map(([group, offer]) => [
      group,
      isGone(offer.sender) ? { version: offer.version, sender: null, manifest: null } : offer,
    ]),
  );
}

function withNode(state: Topology, node: TopologyNode): Topology {
  const { role_name, rank } = node.info;
  const nodes = withEntry(state.roles.get(role_name) ?? new Map(), rank, node);
  return { ...state, roles: withEntry(state.roles, role_name, nodes) };
}

/** The state with room for one node more: the one that is dead for longest goes. Null when all of them live. */
function withRoom(state: Topology, nodesMax: number): Topology | null {
  let count = 0;
  for (const nodes of state.roles.values()) count += nodes.size;
  if (count < nodesMax) return state;
  const [oldest] = allNodes(state)
    .filter(({ isAlive }) => !isAlive)
    .sort((a, b) => (a.diedAt ?? 0) - (b.diedAt ?? 0));
  if (oldest === undefined) return null;
  const { role_name, rank } = oldest.info;
  const others = withEntry(state.roles.get(role_name) ?? new Map(), rank, undefined);
  return { ...state, roles: withEntry(state.roles, role_name, others.size > 0 ? others : undefined) };
}

/** Small metadata is bounded by the number of nodes. */
const smallMetadata = 1_024;

/** Bytes of all large metadata once a node has this one; 0 when it is small itself. */
function largeMetadata(state: Topology, metadata: object, held: TopologyNode | undefined): number {
  const own = bytesOf(metadata);
  if (own <= smallMetadata) return 0;
  const others = allNodes(state).filter((node) => node !== held);
  return others
    .map(({ info }) => bytesOf(info.metadata))
    .filter((bytes) => bytes > smallMetadata)
    .reduce((sum, bytes) => sum + bytes, own);
}

/** The rank that this very life of a process has already: its registration was answered, and the answer was lost. */
function rankOfIncarnation(state: Topology, role: string, incarnation: string | null): number | undefined {
  if (incarnation === null) return undefined;
  for (const [rank, node] of state.roles.get(role) ?? []) if (node.incarnation === incarnation) return rank;
  return undefined;
}

function smallestFree(state: Topology, role: string): number {
  const nodes = state.roles.get(role);
  let rank = 0;
  while (nodes?.get(rank)?.isAlive) rank++;
  return rank;
}

/** Whether a living holder of a rank and whoever asks for it can be one process, or its next life at the same address. */
function isSame(
  held: TopologyNode,
  said: { readonly ip: string | null; readonly port: number | null },
  incarnation: string | null,
): boolean {
  if (incarnation !== null && incarnation === held.incarnation) return true;
  const { ip, port } = held.info;
  const agrees = <T>(a: T | null, b: T | null): boolean => a === null || b === null || a === b;
  if (!agrees(ip, said.ip) || !agrees(port, said.port)) return false;
  const isOtherLife = incarnation !== null && held.incarnation !== null;
  return !isOtherLife || (ip !== null && ip === said.ip && port !== null && port === said.port);
}

function takenText({ info }: TopologyNode): string {
  const where = `${info.ip ?? "an unknown address"}:${info.port ?? "?"}`;
  return `rank: ${info.rank} of ${info.role_name} is held by a living process at ${where}; leave the rank out to get a free one`;
}

/** Whether a life that a caller says is not the one that holds the rank. A caller that says none is believed. */
export function isAnother(node: TopologyNode, incarnation: string | null): boolean {
  return incarnation !== null && node.incarnation !== incarnation;
}

/** Refuses whoever acts for a rank that another life holds. */
export function heldByAnother({ info }: TopologyNode) {
  return refuse(
    409,
    `incarnation: ${nodeIdOf(info.role_name, info.rank)} is held by another process now; register again`,
    "rank",
  );
}

function unknown(role: string, rank: number) {
  return refuse(404, `rank: ${nodeIdOf(role, rank)} is not registered`, "rank");
}

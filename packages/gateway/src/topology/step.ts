/** One input of the coordinator, its next state and its answer. Pure: the same state, input and time give the same. */
import { acquireLock, leasePort, type Owner, overdueLocks, type PortService, releaseLock } from "./leases.ts";
import { bury, heartbeat, type Registration, register, silentNodes, unregister } from "./members.ts";
import { type Offered, offerWeights } from "./offers.ts";
import type { Outcome, Topology, TopologyNode, TopologyRules, WeightMeta } from "./state.ts";
import { addWeightMeta, clearWeightMeta, endUpdates, staleUpdates } from "./weight-meta.ts";

/** Whatever changes the state. What is journaled is one of these, with its time. */
export type Input =
  | ({ readonly kind: "register" } & Registration)
  | {
      readonly kind: "unregister";
      readonly role: string;
      readonly rank: number;
      readonly incarnation?: string | null | undefined;
    }
  | { readonly kind: "heartbeat"; readonly role: string; readonly rank: number; readonly incarnation: string | null }
  | { readonly kind: "meta.add"; readonly updateId: string; readonly sender: string | null; readonly entry: WeightMeta }
  | { readonly kind: "meta.clear"; readonly updateId: string }
  | ({ readonly kind: "offer" } & Offered)
  | ({ readonly kind: "lock.acquire"; readonly name: string; readonly leaseMs: number } & Owner)
  | { readonly kind: "lock.release"; readonly name: string; readonly token: number }
  | ({
      readonly kind: "port.lease";
      readonly service: PortService;
      readonly ip: string;
      readonly not: readonly number[];
    } & Owner)
  /** The coordinator stood still for so long. */
  | { readonly kind: "stall"; readonly lateMs: number }
  | { readonly kind: "deaths.told"; readonly epoch: number }
  | {
      readonly kind: "expire";
      readonly nodes: readonly string[];
      readonly updates: readonly string[];
      readonly locks: readonly string[];
    };

/** The answer to an input, by its kind. */
export interface Answers {
  readonly register: { readonly rank: number; readonly node_id: string; readonly message: string };
  readonly unregister: { readonly message: string };
  readonly heartbeat: { readonly revived: boolean };
  readonly "meta.add": { readonly index: number };
  readonly "meta.clear": { readonly message: string };
  readonly offer: { readonly version: number };
  readonly "lock.acquire": { readonly token: number | null; readonly owner: string };
  readonly "lock.release": { readonly message: string };
  readonly "port.lease": { readonly port: number };
  readonly stall: null;
  readonly "deaths.told": null;
  readonly expire: null;
}

/** When an input came, and what the coordinator decides by. */
export interface Circumstances {
  readonly now: number;
  readonly rules: TopologyRules;
}

/** The next state and the answer, or a refusal that changes nothing. */
export function step(state: Topology, input: Input, at: Circumstances): Outcome<Answers[Input["kind"]]> {
  switch (input.kind) {
    case "register": {
      const { kind: _, ...said } = input;
      return register(state, said, at);
    }
    case "unregister":
      return unregister(state, input);
    case "heartbeat":
      return heartbeat(state, input, at.now);
    case "meta.add":
      return addWeightMeta(state, input, at);
    case "meta.clear":
      return clearWeightMeta(state, input.updateId);
    case "offer": {
      const { kind: _, ...offer } = input;
      return offerWeights(state, offer, at.rules);
    }
    case "lock.acquire":
      return acquireLock(state, input, at);
    case "lock.release":
      return releaseLock(state, input.name, input.token);
    case "port.lease":
      return leasePort(state, input, at.rules);
    case "stall":
      return { state: afterStall(state, input.lateMs), answer: null };
    case "deaths.told":
      return { state: { ...state, toldDeaths: Math.max(state.toldDeaths, input.epoch) }, answer: null };
    case "expire":
      return { state: expire(state, input), answer: null };
  }
}

/** What has run out by now; null when nothing has. Being asked changes nothing: the answer is an input like others. */
export function overdue(state: Topology, { now, rules }: Circumstances): Extract<Input, { kind: "expire" }> | null {
  const nodes = silentNodes(state, now, rules);
  const updates = staleUpdates(state, now, rules);
  const locks = overdueLocks(state, now);
  return nodes.length + updates.length + locks.length === 0 ? null : { kind: "expire", nodes, updates, locks };
}

/**
 * The state after the coordinator itself was away: nobody is blamed for the time in which nobody listened, so every wait begins anew.
 */
export function afterAbsence(state: Topology, now: number): Topology {
  const roles = new Map(
    [...state.roles].map(([role, nodes]) => [
      role,
      new Map([...nodes].map(([rank, node]) => [rank, { ...node, lastHeartbeat: now }])),
    ]),
  );
  return {
    ...state,
    roles,
    updates: new Map([...state.updates].map(([id, update]) => [id, { ...update, touched: now }])),
    locks: new Map([...state.locks].map(([name, lock]) => [name, { ...lock, until: now + lock.leaseMs }])),
  };
}

/** The state after the process stood still: every time-out is longer by the time in which nobody was heard. */
function afterStall(state: Topology, lateMs: number): Topology {
  const later = (node: TopologyNode): TopologyNode => ({ ...node, lastHeartbeat: node.lastHeartbeat + lateMs });
  return {
    ...state,
    roles: mapped(state.roles, (nodes) => mapped(nodes, later)),
    updates: mapped(state.updates, (update) => ({ ...update, touched: update.touched + lateMs })),
    locks: mapped(state.locks, (lock) => ({ ...lock, until: lock.until + lateMs })),
  };
}

function mapped<K, V, W>(map: ReadonlyMap<K, V>, change: (value: V) => W): ReadonlyMap<K, W> {
  return new Map([...map].map(([key, value]) => [key, change(value)]));
}

function expire(state: Topology, { nodes, updates, locks }: Extract<Input, { kind: "expire" }>): Topology {
  const alive = nodes.length === 0 ? state : bury(state, nodes);
  const current = updates.length === 0 ? alive : endUpdates(alive, updates, "nobody added to it for too long");
  if (locks.length === 0) return current;
  return { ...current, locks: new Map([...current.locks].filter(([name]) => !locks.includes(name))) };
}

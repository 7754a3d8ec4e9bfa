/** What processes hold for a time: the lock around an update, and ports of a host. */
import { heldByAnother, isAnother } from "./members.ts";
import {
  livingNode,
  type Outcome,
  type PortLease,
  type Refusal,
  refuse,
  type Topology,
  type TopologyRules,
  withEntry,
} from "./state.ts";

/** Ports by what they are for, first and last. */
export const portRanges = {
  dcs: [11_000, 11_999],
  rollout: [15_000, 15_999],
  genrm: [16_000, 16_999],
} as const;

/** What a port is for. */
export type PortService = keyof typeof portRanges;

/** Who takes something. With its life, it takes nothing under a rank that another one has by now. */
export interface Owner {
  /** Node id. */
  readonly owner: string;
  readonly incarnation?: string | null | undefined;
}

function strangerOf(state: Topology, { owner, incarnation = null }: Owner): { readonly refused: Refusal } | null {
  const node = livingNode(state, owner);
  if (node === undefined) return refuse(409, `owner: "${owner}" is no living process; register it first`, "owner");
  return isAnother(node, incarnation) ? heldByAnother(node) : null;
}

/** Takes a lock, or keeps it when the owner has it already. `token` is null while somebody else has it. */
export function acquireLock(
  state: Topology,
  asked: { readonly name: string; readonly leaseMs: number } & Owner,
  { now, rules }: { readonly now: number; readonly rules: TopologyRules },
): Outcome<{ readonly token: number | null; readonly owner: string }> {
  const stranger = strangerOf(state, asked);
  if (stranger !== null) return stranger;
  const held = state.locks.get(asked.name);
  if (held !== undefined && held.until > now && held.owner !== asked.owner)
    return { state, answer: { token: null, owner: held.owner } };
  if (held === undefined && state.locks.size >= rules.locksMax)
    return refuse(507, `name: ${rules.locksMax} locks are held already`, "name");
  const isOwn = held !== undefined && held.owner === asked.owner && held.until > now;
  const token = isOwn ? held.token : state.token + 1;
  const lock = { owner: asked.owner, token, leaseMs: asked.leaseMs, until: now + asked.leaseMs };
  return {
    state: { ...state, token: Math.max(token, state.token), locks: withEntry(state.locks, asked.name, lock) },
    answer: { token, owner: asked.owner },
  };
}

/** Gives a lock back. Whoever lost it meanwhile is told. */
export function releaseLock(state: Topology, name: string, token: number): Outcome<{ readonly message: string }> {
  const held = state.locks.get(name);
  if (held === undefined || held.token !== token)
    return refuse(409, `token: ${token} does not hold the lock "${name}"; its lease is over`, "token");
  return { state: { ...state, locks: withEntry(state.locks, name, undefined) }, answer: { message: "released" } };
}

/** Names of locks whose lease is over. */
export function overdueLocks(state: Topology, now: number): readonly string[] {
  return [...state.locks].filter(([, { until }]) => until <= now).map(([name]) => name);
}

/** Gives the smallest port of a service that is free on a host, without those that the caller found taken. */
export function leasePort(
  state: Topology,
  asked: {
    readonly service: PortService;
    readonly ip: string;
    readonly not: readonly number[];
  } & Owner,
  rules: TopologyRules,
): Outcome<{ readonly port: number }> {
  const stranger = strangerOf(state, asked);
  if (stranger !== null) return stranger;
  if (state.ports.length >= rules.portsMax)
    return refuse(507, `service: ${rules.portsMax} ports are given out already; unregister their owners`, "service");
  const taken = new Set(state.ports.filter(({ ip }) => ip === asked.ip).map(({ port }) => port));
  for (const port of asked.not) taken.add(port);
  const [first, last] = portRanges[asked.service];
  let port: number = first;
  while (taken.has(port)) port++;
  if (port > last) return refuse(507, `service: no port of ${first} to ${last} is free on ${asked.ip}`, "service");
  const lease: PortLease = { ip: asked.ip, port, owner: asked.owner };
  return { state: { ...state, ports: [...state.ports, lease] }, answer: { port } };
}

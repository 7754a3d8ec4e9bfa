/** Every endpoint of the coordinator in one table: what it asks for, what it answers, who may call it. */
import type { z } from "zod";
import type { Coordinator } from "../coordinator.ts";
import { newestOffer } from "../topology/offers.ts";
import { debugOf } from "../topology/plain-topology.ts";
import { findNode, findPeer, globalRank, groupRanks, topologyOf, worldSize } from "../topology/ranks.ts";
import { allNodes, nodeIdOf, type Outcome, type Refusal, refuse, type Topology } from "../topology/state.ts";
import { weightMetaFrom } from "../topology/weight-meta.ts";
import * as schemas from "./schemas.ts";

const { answers, queries } = schemas;

/** What a token may do. Admin may do everything, write may read. */
export type Scope = "read" | "write" | "admin";

/** What an endpoint works with. */
export interface RouteContext {
  readonly coordinator: Coordinator;
  /** Wall time in seconds since 1970. */
  readonly wallSeconds: () => number;
  /** Aborted when the client has gone. */
  readonly signal: AbortSignal;
}

/** One endpoint. */
export interface Route {
  readonly method: "GET" | "POST" | "DELETE";
  readonly path: string;
  readonly scope: Scope;
  readonly summary: string;
  readonly query: z.ZodType;
  readonly body: z.ZodType | null;
  readonly answer: z.ZodType;
  readonly run: (asked: { query: never; body: never }, context: RouteContext) => Promise<Result>;
}

/** What an endpoint comes to. */
export type Result = { readonly answer: unknown } | { readonly refused: Refusal };

interface Shape<Q extends z.ZodType, B extends z.ZodType> {
  readonly scope: Scope;
  readonly summary: string;
  readonly query?: Q;
  readonly body?: B;
  readonly answer: z.ZodType;
}

function route<Q extends z.ZodType = typeof queries.none, B extends z.ZodType = z.ZodNull>(
  line: `${Route["method"]} /${string}`,
  { query, body, ...shape }: Shape<Q, B>,
  run: (asked: { query: z.infer<Q>; body: z.infer<B> }, context: RouteContext) => Promise<Result>,
): Route {
  const [method, path] = line.split(" ") as [Route["method"], string];
  return { method, path, ...shape, query: query ?? queries.none, body: body ?? null, run: run as Route["run"] };
}

/** The answer of an outcome, put into words. */
function said<A>(outcome: Outcome<A>, words: (answer: A) => unknown): Result {
  return "refused" in outcome ? outcome : { answer: words(outcome.answer) };
}

const members: readonly Route[] = [
  route(
    "POST /register",
    { scope: "write", summary: "Register a node", body: schemas.registerRequest, answer: answers.registered },
    async ({ body }, { coordinator }) => {
      const { rank = null, world_size = null, ip = null, port = null, device_id = null, incarnation = null } = body;
      const info = { role_name: body.role_name, world_size, ip, port, device_id, metadata: body.metadata ?? {} };
      const outcome = await coordinator.submit<"register">({ kind: "register", ...info, rank, incarnation });
      return said(outcome, ({ message, ...rest }) => ({ status: "success", message, ...rest }));
    },
  ),
  route(
    "DELETE /unregister",
    { scope: "write", summary: "Unregister a node", query: queries.oneLife, answer: answers.done },
    async ({ query }, { coordinator }) =>
      said(
        await coordinator.submit<"unregister">({ kind: "unregister", incarnation: null, ...query }),
        ({ message }) => ({
          ...{ status: "success", message },
        }),
      ),
  ),
  route(
    "GET /heartbeat",
    { scope: "write", summary: "Give a sign of life", query: queries.oneLife, answer: answers.heartbeat },
    async ({ query }, { coordinator, wallSeconds }) => {
      const { role, rank, incarnation = null } = query;
      const outcome = await coordinator.submit<"heartbeat">({ kind: "heartbeat", role, rank, incarnation });
      return said(outcome, () => ({ status: "ok", timestamp: wallSeconds() }));
    },
  ),
  route(
    "GET /health",
    { scope: "read", summary: "Health, and who is dead", query: queries.health, answer: answers.health },
    async ({ query }, { coordinator, wallSeconds }) => {
      await coordinator.expire();
      const health = await coordinator.read((state) => healthOf(state, query.since ?? state.toldDeaths));
      if (query.since === undefined && health.newly_dead_nodes.length > 0)
        await coordinator.submit<"deaths.told">({ kind: "deaths.told", epoch: health.membership_epoch });
      return { answer: { status: "healthy", timestamp: wallSeconds(), ...health } };
    },
  ),
];

const lookUps: readonly Route[] = [
  route(
    "GET /topology",
    { scope: "read", summary: "Living nodes by role and rank", query: queries.topology, answer: answers.topology },
    async ({ query }, { coordinator, signal }) => {
      const outcome = await coordinator.wait(
        (state) => ({ state, answer: topologyOf(state, query.role_filter ?? null) }),
        ({ membership_epoch }) => query.after_epoch === undefined || membership_epoch !== query.after_epoch,
        { waitMs: query.wait_timeout_s * 1_000, signal },
      );
      return said(outcome, (topology) => topology);
    },
  ),
  route(
    "GET /peer",
    { scope: "read", summary: "Node of the same rank in the peer role", query: queries.peer, answer: answers.roleInfo },
    async ({ query: { role, rank, peer_role: peerRole = null } }, { coordinator }) => {
      const { roleMappings } = coordinator.rules;
      const outcome = await coordinator.read((state) => findPeer(state, { role, rank, peerRole }, roleMappings));
      return said(outcome, (info) => info);
    },
  ),
  route(
    "GET /node",
    { scope: "read", summary: "One living node", query: queries.node, answer: answers.roleInfo },
    async ({ query }, { coordinator }) =>
      said(await coordinator.read((state) => findNode(state, query.role, query.rank)), (info) => info),
  ),
  route(
    "GET /global_rank",
    { scope: "read", summary: "Place among all living nodes", query: queries.node, answer: answers.globalRank },
    async ({ query }, { coordinator }) =>
      said(await coordinator.read((state) => globalRank(state, query.role, query.rank)), (answer) => answer),
  ),
  route(
    "GET /get_model_update_group_ranks",
    {
      ...{ scope: "read", summary: "Ranks and groups of a model update" },
      ...{ query: queries.groupRanks, answer: answers.groupRanks },
    },
    async ({ query }, { coordinator }) => {
      const { role, rank, need_update_ref: needUpdateRef, membership_epoch: expected } = query;
      const outcome = await coordinator.read((state) =>
        expected === undefined || expected === state.epoch
          ? groupRanks(state, { role, rank, needUpdateRef })
          : refuse(409, `membership_epoch: ${expected} is over, it is ${state.epoch} now; fetch the topology again`),
      );
      return said(outcome, (answer) => answer);
    },
  ),
  route(
    "GET /debug/topology",
    { scope: "admin", summary: "Everything, for people", answer: answers.debug },
    async (_, { coordinator }) => {
      const { roleMappings } = coordinator.rules;
      return { answer: await coordinator.read((state, now) => debugOf(state, now, roleMappings)) };
    },
  ),
];

const transfers: readonly Route[] = [
  route(
    "POST /send_weight_meta",
    { scope: "write", summary: "Announce weights", body: schemas.sendWeightMetaRequest, answer: answers.done },
    async ({ body }, { coordinator }) => {
      const { update_id, sender, metadata, names, dtypes, shapes, group_name } = body;
      const entry = { names, dtypes, shapes, group_name, ...(metadata ? { metadata } : {}) };
      const outcome = await coordinator.submit<"meta.add">({
        ...{ kind: "meta.add", updateId: update_id ?? "", sender: sender ?? null, entry },
      });
      return said(outcome, ({ index }) => ({ status: "success", message: `stored at index ${index}` }));
    },
  ),
  route(
    "GET /recv_weight_meta",
    { scope: "read", summary: "Announcements from an index on", query: queries.weightMeta, answer: answers.weightMeta },
    async ({ query }, { coordinator, signal }) => {
      const asked = { updateId: query.update_id, index: query.index, group: query.group_name ?? null };
      const outcome = await coordinator.wait(
        (state) => weightMetaFrom(state, asked),
        (list) => list.length > 0,
        { waitMs: query.wait_timeout_s * 1_000, signal },
      );
      return said(outcome, (list) => list);
    },
  ),
  route(
    "GET /clear_weight_meta",
    { scope: "write", summary: "End an update", query: queries.clear, answer: answers.done },
    async ({ query }, { coordinator }) =>
      said(
        await coordinator.submit<"meta.clear">({ kind: "meta.clear", updateId: query.update_id }),
        ({ message }) => ({
          ...{ status: "success", message },
        }),
      ),
  ),
  route(
    "POST /offer_weights",
    {
      ...{ scope: "write", summary: "Make a whole version known" },
      ...{ body: schemas.offerWeightsRequest, answer: answers.offered },
    },
    async ({ body: { group_name: group, ...offer } }, { coordinator }) =>
      said(await coordinator.submit<"offer">({ kind: "offer", group, ...offer }), ({ version }) => ({
        ...{ status: "success", version },
      })),
  ),
  route(
    "GET /weight_offer",
    { scope: "read", summary: "The newest version of a group", query: queries.offer, answer: answers.offer },
    async ({ query }, { coordinator, signal }) => {
      const { group_name, after_version: after } = query;
      const outcome = await coordinator.wait(
        (state) => ({ state, answer: newestOffer(state, group_name) }),
        ({ version, manifest }) => after === undefined || (manifest !== null && (version ?? -1) > after),
        { waitMs: query.wait_timeout_s * 1_000, signal },
      );
      return said(outcome, (offer) => offer);
    },
  ),
  route(
    "POST /acquire_lock",
    { scope: "write", summary: "Take the update lock", body: schemas.acquireLockRequest, answer: answers.lock },
    async ({ body }, { coordinator, signal }) => {
      const input = {
        kind: "lock.acquire",
        name: body.name,
        owner: body.owner,
        incarnation: body.incarnation,
        leaseMs: body.lease_seconds * 1_000,
      } as const;
      await coordinator.wait(
        (state) => ({ state, answer: state.locks.get(body.name)?.owner ?? body.owner }),
        (owner) => owner === body.owner,
        { waitMs: body.wait_timeout_s * 1_000, signal },
      );
      // Nobody would give it back.
      if (signal.aborted) return refuse(499, "owner: the caller has gone");
      const outcome = await coordinator.submit<"lock.acquire">(input);
      return said(outcome, ({ token, owner }) => ({ status: token === null ? "held" : "acquired", token, owner }));
    },
  ),
  route(
    "POST /release_lock",
    { scope: "write", summary: "Give the lock back", body: schemas.releaseLockRequest, answer: answers.done },
    async ({ body }, { coordinator }) =>
      said(await coordinator.submit<"lock.release">({ kind: "lock.release", ...body }), ({ message }) => ({
        ...{ status: "success", message },
      })),
  ),
  route(
    "POST /lease_port",
    {
      scope: "write",
      summary: "Get a port of a service's range",
      body: schemas.leasePortRequest,
      answer: answers.port,
    },
    async ({ body: { taken: not, ...asked } }, { coordinator }) =>
      said(await coordinator.submit<"port.lease">({ kind: "port.lease", ...asked, not }), ({ port }) => ({
        ...{ status: "success", port },
      })),
  ),
];

/** All endpoints. */
export const routes: readonly Route[] = [...members, ...lookUps, ...transfers];

function healthOf(state: Topology, since: number) {
  const dead = allNodes(state).filter(({ isAlive }) => !isAlive);
  const idsOf = (nodes: typeof dead) => nodes.map(({ info }) => nodeIdOf(info.role_name, info.rank));
  return {
    world_size: worldSize(state),
    dead_nodes: idsOf(dead),
    newly_dead_nodes: idsOf(dead.filter(({ diedAt }) => (diedAt ?? 0) > since)),
    membership_epoch: state.epoch,
  };
}

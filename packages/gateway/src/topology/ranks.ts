/** Who is what to whom: look-ups, peers, global ranks, and the groups of a weight update. */
import { aliveOf, nodeAt, nodeIdOf, type Outcome, type RoleInfo, refuse, type Topology } from "./state.ts";

/** Answer of `GET /topology`: living nodes only. */
export interface TopologyAnswer {
  readonly nodes: Readonly<Record<string, Readonly<Record<string, RoleInfo>>>>;
  /** Living nodes of all roles. */
  readonly world_size: number;
  readonly membership_epoch: number;
}

/** Answer of `GET /get_model_update_group_ranks`. */
export interface GroupRanks {
  readonly global_rank: number;
  readonly world_size: number;
  readonly train_pp_size: number;
  readonly pp_groups: Readonly<Record<string, string>>;
  readonly membership_epoch: number;
}

/** The living nodes, of one role where a filter is given. The world size is that of all roles. */
export function topologyOf(state: Topology, roleFilter: string | null): TopologyAnswer {
  const entries = [...state.roles.keys()]
    .map((role) => [role, aliveOf(state, role)] as const)
    .filter(([role, nodes]) => nodes.length > 0 && (roleFilter === null || role === roleFilter))
    .map(([role, nodes]) => [role, Object.fromEntries(nodes.map(({ info }) => [String(info.rank), info]))] as const);
  return { nodes: Object.fromEntries(entries), world_size: worldSize(state), membership_epoch: state.epoch };
}

/** Living nodes, of one role or of all. */
export function worldSize(state: Topology, role: string | null = null): number {
  const roles = role === null ? [...state.roles.keys()] : [role];
  return roles.reduce((sum, each) => sum + aliveOf(state, each).length, 0);
}

/** One node. A dead one is not found: nobody should connect to it. */
export function findNode(state: Topology, role: string, rank: number): Outcome<RoleInfo> {
  const node = nodeAt(state, role, rank);
  if (node === undefined) return refuse(404, `rank: ${nodeIdOf(role, rank)} is not registered`, "rank");
  if (!node.isAlive) return refuse(404, `rank: ${nodeIdOf(role, rank)} is dead: its heartbeats stopped`, "rank");
  return { state, answer: node.info };
}

/** The node of the same rank in the peer role: the one asked for, otherwise the mapped one. */
export function findPeer(
  state: Topology,
  asked: { readonly role: string; readonly rank: number; readonly peerRole: string | null },
  roleMappings: Readonly<Record<string, string>>,
): Outcome<RoleInfo> {
  const mapped = Object.hasOwn(roleMappings, asked.role) ? roleMappings[asked.role] : undefined;
  const role = asked.peerRole ?? mapped;
  if (role === undefined)
    return refuse(404, `role: "${asked.role}" has no peer role in the role mappings; name one with peer_role`, "role");
  return findNode(state, role, asked.rank);
}

/** Place among all living nodes: roles in the order in which they appeared first, ranks in order within each. */
export function globalRank(state: Topology, role: string, rank: number): Outcome<{ readonly global_rank: number }> {
  const found = findNode(state, role, rank);
  if ("refused" in found) return found;
  let before = 0;
  for (const each of state.roles.keys()) {
    if (each === role) break;
    before += aliveOf(state, each).length;
  }
  return { state, answer: { global_rank: before + placeIn(state, role, rank) } };
}

const updateRoles = ["actor", "actor_fwd", "reference"];

/** The groups over which an actor's weights reach actor_fwd and, where asked for, reference. Ranks are dense among the living. */
export function groupRanks(
  state: Topology,
  asked: { readonly role: string; readonly rank: number; readonly needUpdateRef: boolean },
): Outcome<GroupRanks> {
  const { role, rank, needUpdateRef } = asked;
  if (!updateRoles.includes(role))
    return refuse(400, `role: "${role}" takes no part in model updates; use one of ${updateRoles.join(", ")}`, "role");
  const first = nodeAt(state, "actor", 0);
  if (!first?.isAlive) return refuse(409, "role: actor 0 is not registered", "role");
  const found = findNode(state, role, rank);
  if ("refused" in found) return found;
  const ppSize = first.info.metadata.pp_size ?? 1;
  if (!isCount(ppSize)) return refuse(409, "metadata.pp_size: actor 0 gave no positive whole number", "metadata");
  const groups = ppGroups(state);
  if ("refused" in groups) return groups;
  const fwd = aliveOf(state, "actor_fwd").length;
  const targets = needUpdateRef ? fwd + aliveOf(state, "reference").length : fwd;
  const offset = role === "actor_fwd" ? 1 : 1 + fwd;
  return {
    state,
    answer: {
      global_rank: role === "actor" ? 0 : offset + placeIn(state, role, rank),
      world_size: 1 + targets,
      train_pp_size: ppSize,
      pp_groups: groups.answer,
      membership_epoch: state.epoch,
    },
  };
}

/** One group per pipeline stage, named after it, at the address of the actor that is its source. */
function ppGroups(state: Topology): Outcome<Readonly<Record<string, string>>> {
  const groups: Record<string, string> = {};
  for (const { info } of aliveOf(state, "actor")) {
    const { is_pp_src_rank: isSource, pp_rank = 0, master_address = info.ip, master_port } = info.metadata;
    if (isSource !== true) continue;
    const whose = `actor ${info.rank}`;
    if (!isPlace(pp_rank)) return refuse(409, `metadata.pp_rank: ${whose} gave no whole number`, "metadata");
    if (typeof master_address !== "string" || master_address === "")
      return refuse(409, `metadata.master_address: ${whose} is a source of weights and gave none`, "metadata");
    if (!isCount(master_port) || master_port > 65_535)
      return refuse(409, `metadata.master_port: ${whose} is a source of weights and gave no port`, "metadata");
    const host =
      master_address.includes(":") && !master_address.startsWith("[") ? `[${master_address}]` : master_address;
    const [name, url] = [`update_actor_pp_${pp_rank}`, `tcp://${host}:${master_port}`];
    if ((groups[name] ?? url) !== url)
      return refuse(
        409,
        `metadata.pp_rank: ${whose} and another actor are both the source of stage ${pp_rank}`,
        "metadata",
      );
    groups[name] = url;
  }
  return { state, answer: groups };
}

function placeIn(state: Topology, role: string, rank: number): number {
  return aliveOf(state, role).findIndex(({ info }) => info.rank === rank);
}

const isPlace = (value: unknown): value is number => Number.isSafeInteger(value) && (value as number) >= 0;
const isCount = (value: unknown): value is number => Number.isSafeInteger(value) && (value as number) > 0;

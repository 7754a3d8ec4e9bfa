/** What the operator of a simulated fleet asks for, as plain data. */
import type { Random } from "@muster/base";
import { type Body, type JobConfig, perRole } from "@muster/protocol";

type Without<T> = Omit<T, "commandId">;

/** One command. */
export type Command =
  | { readonly kind: "fleet.scale"; readonly body: Without<Body<"fleet.scale">> }
  | { readonly kind: "fleet.cordon"; readonly body: Without<Body<"fleet.cordon">> }
  | { readonly kind: "fleet.uncordon"; readonly body: Without<Body<"fleet.uncordon">> }
  | { readonly kind: "replica.drain"; readonly body: Without<Body<"replica.drain">> }
  | { readonly kind: "replica.replace"; readonly body: Without<Body<"replica.replace">> }
  | { readonly kind: "replica.kill"; readonly body: Without<Body<"replica.kill">> }
  | { readonly kind: "job.change"; readonly body: Without<Body<"job.change">> }
  | { readonly kind: "command.cancel"; readonly body: Without<Body<"command.cancel">> };

/** The nodes of a job. */
export interface FleetShape {
  /** What each node has room for; its place in the list is its number, from 1. */
  readonly nodes: readonly NodeShape[];
}

/** A node of a job: what it has room for, and the devices that it gives away. */
export interface NodeShape {
  readonly host: string;
  readonly capacity: Body<"node.ready">["capacity"];
  readonly devices?: readonly string[];
}

/**
 * Draws devices of replicas and nodes. The first node, which has room for everything, has enough for the most that an operator asks for and for no
 * successor besides, the others have a few. Pure.
 */
export function drawDevices(
  random: Random,
  { config, fleet }: { readonly config: JobConfig; readonly fleet: FleetShape },
): { readonly config: JobConfig; readonly fleet: FleetShape } {
  // Trainers stay on the host where the first of them is, and the smallest may be that: then the others wait, as the operator is told.
  const isOneHost = new Set(fleet.nodes.map(({ host }) => host)).size === 1;
  const [policy, rollout] = [random.below(2), 1 + random.below(2)];
  const devices = { ...perRole(() => 0), policy: isOneHost ? policy : 0, rollout };
  const most =
    config.batch.microShards * devices.policy +
    (config.replicas.rollout + 3) * (config.processes?.rollout ?? 1) * devices.rollout;
  let named = 0;
  const nodes = fleet.nodes.map((node, i) => {
    const count = i === 0 ? most : random.below(4);
    return { ...node, devices: Array.from({ length: count }, () => `${named++}`) };
  });
  return { config: { ...config, devices }, fleet: { nodes } };
}

/** Draws nodes: the first always has room for all trainers and samplers. Pure. */
export function drawFleet(random: Random, { replicas, data }: JobConfig): FleetShape {
  const count = 1 + random.below(4);
  const hosts = random.next() < 0.3 ? Math.ceil(count / 2) : count;
  const nodes = Array.from({ length: count }, (_, i) => {
    const isSmall = i > 0 && random.next() < 0.4;
    const rollout = isSmall ? 1 + random.below(replicas.rollout) : null;
    return { host: `host-${i % hosts}`, capacity: { ...perRole(() => null), rollout } };
  });
  // Not every host keeps files. Where the hosts have a network, the first that joins may be one that does not.
  const keeper = data.tcpHost ? random.below(count) : 0;
  const isDiskless = (i: number): boolean => i !== keeper && random.next() < 0.3;
  return {
    nodes: nodes.map((node, i) => (isDiskless(i) ? { ...node, capacity: { ...node.capacity, checkpoint: 0 } } : node)),
  };
}

/** Draws a command about one of these nodes and replicas; some of them make no sense, and are to be refused. Pure. */
export function drawCommand(
  random: Random,
  { config, ids }: { readonly config: JobConfig; readonly ids: readonly string[] },
): Command {
  const { replicas, batch } = config;
  const id = ids[random.below(ids.length)] as string;
  const node = ids.filter((each) => each.startsWith("node-"))[0] ?? id;
  const signals = ["SIGKILL", "SIGKILL", "SIGTERM", "SIGSTOP", "SIGABRT"] as const;
  switch (random.below(10)) {
    case 0:
    case 1:
      return { kind: "fleet.scale", body: { rollout: 1 + random.below(replicas.rollout + 3) } };
    case 2:
      return { kind: "fleet.scale", body: { policy: 1 + random.below(batch.microShards + 1) } };
    case 3:
      return { kind: "fleet.scale", body: { checkpoint: random.below(4), rollout: 1 + random.below(3) } };
    case 4:
      return { kind: "fleet.cordon", body: { id: random.next() < 0.5 ? node : id } };
    case 5:
      return { kind: "fleet.uncordon", body: { id } };
    case 6:
      return { kind: "replica.drain", body: { id } };
    case 7:
      return { kind: "replica.replace", body: { id } };
    case 8:
      return { kind: "replica.kill", body: { id, signal: signals[random.below(signals.length)] ?? "SIGKILL" } };
    default:
      return { kind: "command.cancel", body: { target: `c${random.below(6)}` } };
  }
}

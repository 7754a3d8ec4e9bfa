/** Bugs of nodes, and of the controller's logic about them: orphans, placement, commands, joins. */
import type { Role } from "@muster/actors";
import type { NodeContext } from "@muster/machines";
import type { ControllerState } from "@muster/machines/controller";
import { perRole } from "@muster/protocol";
import type { Scenario } from "../cluster/scenario.ts";
import type { Fault } from "../faults/fault.ts";
import { type Canary, repeated } from "./canary.ts";
import { logicBug } from "./logic-bug.ts";
import { rankCanaries } from "./rank-canaries.ts";

type Fleet = ControllerState["fleet"];

const withFleet = (state: ControllerState, patch: Partial<Fleet>): ControllerState => ({
  ...state,
  fleet: { ...state.fleet, ...patch },
});

/** A node is killed again and again; its next life takes long to clean up. */
const nodesKilledAndSlow = (scenario: Scenario): readonly Fault[] => [
  ...nodesKilled(scenario),
  ...Array.from({ length: 20 }, (_, i) => ({
    kind: "failpoint" as const,
    point: "node.keeper-clean",
    nth: i + 1,
    action: { type: "delay" as const, delayMs: 12_000 },
  })),
];

/** A node is killed again and again. */
const nodesKilled = (scenario: Scenario): readonly Fault[] =>
  repeated(scenario, 15_000, (atMs) => ({ kind: "kill", atMs, node: "node-1", isSeen: true }));

/** One node after the other is not heard for long enough to be given up, while what it runs can speak. */
const nodesUnheard = ({ fleet, config }: Scenario): readonly Fault[] =>
  (fleet?.nodes ?? []).map((_, i) => {
    const forMs = 3 * config.timing.deadAfterMs;
    return { kind: "partition", atMs: 20_000 + 2 * forMs * i, forMs, node: `node-${i + 1}`, way: "up" };
  });

/** Sampler after sampler stands still, and then its node is killed: they wake as orphans of an earlier life. */
const frozenThenKilled = (scenario: Scenario): readonly Fault[] => [
  ...repeated(scenario, 20_000, (atMs) => ({ kind: "pause", atMs, forMs: 15_000, node: "rollout-0" })),
  ...repeated(scenario, 20_000, (atMs) => ({ kind: "kill", atMs: atMs + 200, node: "node-1", isSeen: true })),
];

/** The operator gives one command again and again. */
const givenAgain = (scenario: Scenario): readonly Fault[] => [
  {
    kind: "command",
    atMs: 20_000,
    id: "again",
    command: { kind: "fleet.scale", body: { rollout: 2 } },
    againMs: Array.from({ length: Math.floor(scenario.safetyMs / 5_000) }, (_, i) => 5_000 * (i + 1)),
  },
];

/** One sampler is enough. */
const scaledDown = (): readonly Fault[] => [
  { kind: "command", atMs: 20_000, id: "less", command: { kind: "fleet.scale", body: { rollout: 1 } }, againMs: [] },
];

function hasEnough({ replicas, wanted }: Fleet): boolean {
  const healthy = Object.values(replicas).filter(({ role, health }) => role === "rollout" && health === "HEALTHY");
  return healthy.length >= wanted.rollout;
}

/** The operator asks a node to leave. */
const nodeDrained = (): readonly Fault[] => [
  {
    kind: "command",
    atMs: 20_000,
    id: "leave",
    command: { kind: "replica.drain", body: { id: "node-2" } },
    againMs: [],
  },
];

/** Successors that were named for what runs on nodes that leave: by the id of the old one. */
function newMoves(after: ControllerState, before: ControllerState): readonly (readonly [string, string])[] {
  return Object.entries(after.fleet.replicas).flatMap(([id, { replacedBy, node, leaving }]) => {
    const isMove = after.members[node ?? ""]?.health === "draining" && !leaving;
    return isMove && replacedBy !== null && !before.fleet.replicas[id]?.replacedBy ? [[id, replacedBy] as const] : [];
  });
}

/** Every replica is asked for a successor. */
const replacements = ({ config }: Scenario): readonly Fault[] =>
  Array.from({ length: config.replicas.rollout }, (_, i) => ({
    kind: "command" as const,
    atMs: 20_000 + 4_000 * i,
    id: `swap-${i}`,
    command: { kind: "replica.replace" as const, body: { id: `rollout-${i}` } },
    againMs: [],
  }));

/** The first node is cordoned, then more samplers are wanted. */
const cordonThenScale = ({ config }: Scenario): readonly Fault[] => [
  {
    kind: "command",
    atMs: 20_000,
    id: "cordon",
    command: { kind: "fleet.cordon", body: { id: "node-1" } },
    againMs: [],
  },
  {
    kind: "command",
    atMs: 25_000,
    id: "more",
    command: { kind: "fleet.scale", body: { rollout: config.replicas.rollout + 3 } },
    againMs: [],
  },
];

/** Trainers come in one after the other. */
const joinersInTurn = ({ config }: Scenario): readonly Fault[] =>
  [0, 1, 2].flatMap((round) =>
    Array.from({ length: config.replicas.policy - 1 }, (_, i) => ({
      kind: "kill" as const,
      atMs: 20_000 + 15_000 * round + 150 * i,
      node: `policy-${i + 1}`,
      isSeen: true,
    })),
  );

/** Samplers are asked for, taken back and asked for while the node can not say what it has started. */
const scaledUnheard = ({ config, safetyMs }: Scenario): readonly Fault[] => {
  const { rollout } = config.replicas;
  return Array.from({ length: Math.floor(safetyMs / 30_000) }, (_, i) => 20_000 + 30_000 * i).flatMap((atMs) => [
    { kind: "partition" as const, atMs, forMs: 0.6 * config.timing.deadAfterMs, node: "node-1", way: "up" as const },
    ...[rollout + 2, rollout, rollout + 2].map((count, j) => ({
      kind: "command" as const,
      atMs: atMs + 100 + 150 * j,
      id: `unheard-${atMs}-${j}`,
      command: { kind: "fleet.scale" as const, body: { rollout: count } },
      againMs: [],
    })),
  ]);
};

/** One node, with devices for as many samplers as are asked for. */
const oneNodeWithDevices = (scenario: Scenario): Scenario => {
  const { config } = scenario;
  const devices = { ...perRole(() => 0), rollout: 1 };
  const named = Array.from({ length: config.replicas.rollout + 2 }, (_, i) => `${i}`);
  const capacity = perRole(() => null);
  return {
    ...scenario,
    config: { ...config, devices },
    fleet: { nodes: [{ host: "host-0", capacity, devices: named }] },
  };
};

type NodeSnapshot = { readonly context: NodeContext };

/** A node that has nobody wait: for its machine, no process has devices. */
function impatient(role: Role): Role {
  const step: Role["logic"]["step"] = (snapshot, event) => {
    const { context } = snapshot as NodeSnapshot;
    const kept = Object.entries(context.kept).map(([id, row]) => [
      id,
      row.state === "ending" ? { ...row, held: null } : row,
    ]);
    const blind = { ...(snapshot as NodeSnapshot), context: { ...context, kept: Object.fromEntries(kept) } };
    return role.logic.step(blind, event);
  };
  return { ...role, logic: { ...role.logic, step } };
}

/** The canaries of devices. */
const deviceCanaries: readonly Canary[] = [
  {
    name: "devices-not-awaited",
    says: "a node starts a process on devices that another one of its own still has",
    profile: "fleet",
    seedsMax: 30,
    shape: oneNodeWithDevices,
    stage: scaledUnheard,
    make: () => ({ role: (role) => (role.role === "node" ? impatient(role) : role) }),
  },
  logicBug("device-given-twice", "a replica gets the devices of whoever was placed on its node before it", {
    profile: "fleet",
    seedsMax: 30,
    shape: oneNodeWithDevices,
    line: {
      keeps: (after, before) => {
        const rows = Object.entries(after.fleet.replicas);
        const fresh = rows.filter(([id, row]) => row.node !== null && before.fleet.replicas[id]?.node !== row.node);
        if (fresh.length === 0) return after;
        const replicas = rows.map(([id, row]) => [id, row.devices?.length ? { ...row, devices: ["0"] } : row]);
        return withFleet(after, { replicas: Object.fromEntries(replicas) });
      },
    },
  }),
];

/** Canaries of the fleet. */
export const fleetCanaries: readonly Canary[] = [
  ...deviceCanaries,
  ...rankCanaries,
  {
    name: "orphans-live-on",
    says: "a replica does not notice that its node is gone",
    profile: "fleet",
    seedsMax: 30,
    stage: nodesKilledAndSlow,
    make: () => ({ keeper: { keepsOrphans: true } }),
  },
  {
    name: "leftovers-forgotten",
    says: "a node does not end what its earlier life left",
    profile: "fleet",
    seedsMax: 30,
    stage: frozenThenKilled,
    make: () => ({ keeper: { forgetsLeftovers: true } }),
  },
  logicBug("replaced-too-early", "who is replaced leaves when its successor is named", {
    profile: "fleet",
    seedsMax: 30,
    stage: replacements,
    line: {
      keeps: (after, before) => {
        if (after.fleet === before.fleet) return after;
        const replicas = Object.entries(after.fleet.replicas).map(([id, replica]) => [
          id,
          replica.replacedBy === null ? replica : { ...replica, leaving: true },
        ]);
        return withFleet(after, { replicas: Object.fromEntries(replicas) });
      },
    },
  }),
  logicBug("moved-too-early", "what runs on a node that leaves goes when its successor is named", {
    profile: "fleet",
    seedsMax: 30,
    stage: nodeDrained,
    line: {
      keeps: (after, before) => {
        const replicas = newMoves(after, before).map(([id]) => [id, { ...after.fleet.replicas[id], leaving: true }]);
        if (replicas.length === 0) return after;
        return withFleet(after, { replicas: { ...after.fleet.replicas, ...Object.fromEntries(replicas) } });
      },
    },
  }),
  logicBug("moved-without-successor", "what runs on a node that leaves goes at once, whoever could take it over", {
    profile: "fleet",
    seedsMax: 30,
    stage: nodeDrained,
    line: {
      keeps: (after, before) => {
        const moves = newMoves(after, before);
        if (moves.length === 0) return after;
        const made = new Set(moves.map(([, successor]) => successor));
        const kept = Object.entries(after.fleet.replicas).filter(([id]) => !made.has(id));
        const replicas = kept.map(([id, row]) => [
          id,
          made.has(row.replacedBy ?? "") ? { ...row, replacedBy: null } : row,
        ]);
        const leavers = moves.flatMap(([id]) => {
          const member = after.members[id];
          return member ? [[id, { ...member, health: "draining" as const }] as const] : [];
        });
        const members = { ...after.members, ...Object.fromEntries(leavers) };
        return withFleet({ ...after, members }, { replicas: Object.fromEntries(replicas) });
      },
    },
  }),
  logicBug("surplus-stays", "a scaling down is done while those that are too many are still there", {
    profile: "fleet",
    seedsMax: 30,
    stage: scaledDown,
    line: {
      keeps: (after) => {
        const open = Object.entries(after.fleet.commands).filter(
          ([, { kind, answer }]) => kind === "fleet.scale" && answer === null,
        );
        if (open.length === 0 || !hasEnough(after.fleet)) return after;
        const done = open.map(([id, row]) => [id, { ...row, answer: { outcome: "done", detail: "enough" } }] as const);
        return withFleet(after, { commands: { ...after.fleet.commands, ...Object.fromEntries(done) } });
      },
    },
  }),
  logicBug("commands-forgotten", "a command that was done is not remembered", {
    profile: "fleet",
    seedsMax: 30,
    stage: givenAgain,
    line: {
      keeps: (after) => {
        const open = Object.entries(after.fleet.commands).filter(([, { answer }]) => answer === null);
        return open.length === Object.keys(after.fleet.commands).length
          ? after
          : withFleet(after, { commands: Object.fromEntries(open) });
      },
    },
  }),
  logicBug("cordon-ignored", "a cordon is acknowledged and not kept", {
    profile: "fleet",
    seedsMax: 60,
    stage: cordonThenScale,
    line: { keeps: (after) => (after.fleet.cordoned.length > 0 ? withFleet(after, { cordoned: [] }) : after) },
  }),
  logicBug("lost-node-kept", "what ran on a node that is gone counts as running there", {
    profile: "fleet",
    seedsMax: 30,
    stage: nodesKilled,
    line: {
      keeps: (after, before) => {
        const nodes = Object.entries(before.fleet.nodes).filter(([id]) => !after.fleet.nodes[id]);
        if (nodes.length === 0) return after;
        const lost = new Set(nodes.map(([id]) => id));
        const replicas = Object.entries(after.fleet.replicas).map(([id, replica]) => {
          const was = before.fleet.replicas[id]?.node ?? null;
          return [id, was !== null && lost.has(was) ? { ...replica, node: was } : replica];
        });
        return withFleet(after, { replicas: Object.fromEntries(replicas) });
      },
    },
  }),
  logicBug(
    "place-not-checked",
    "a replica comes back from a node that cannot be reached, although its place was given away",
    {
      profile: "fleet",
      seedsMax: 30,
      stage: nodesUnheard,
      line: {
        hears: (event, { fleet }) => {
          const node = event.type === "replica.register" ? fleet.replicas[event.from]?.node : null;
          return node && event.type === "replica.register" ? { ...event, body: { ...event.body, node } } : event;
        },
      },
    },
  ),
  logicBug("every-joiner-an-epoch", "joiners are taken in one by one", {
    profile: "fleet",
    seedsMax: 60,
    stage: joinersInTurn,
    line: {
      keeps: (after) =>
        after.mesh.joinDueAtMs !== null && after.mesh.joinDueAtMs > after.nowMs
          ? { ...after, mesh: { ...after.mesh, joinDueAtMs: after.nowMs } }
          : after,
    },
  }),
];

/** Bugs of replicas of several processes. */
import { perRole } from "@muster/protocol";
import type { Scenario } from "../cluster/scenario.ts";
import type { Fault } from "../faults/fault.ts";
import type { Canary } from "./canary.ts";
import { logicBug } from "./logic-bug.ts";

/** One sampler, of three processes on the two nodes of a host. */
const threeProcesses = (scenario: Scenario): Scenario => {
  const { config } = scenario;
  const shape = {
    processes: { ...perRole(() => 1), rollout: 3 },
    devices: perRole(() => 0),
    replicas: { ...config.replicas, rollout: 1 },
    initReplicas: { ...config.initReplicas, rollout: 1 },
  };
  const nodes = [2, 1].map((rollout) => ({ host: "host-0", capacity: { ...perRole(() => null), rollout } }));
  return { ...scenario, config: { ...config, ...shape }, fleet: { nodes } };
};

/** One of them ends now and then. */
const ranksEnd = ({ safetyMs }: Scenario): readonly Fault[] =>
  Array.from({ length: Math.floor(safetyMs / 20_000) }, (_, i) => ({
    kind: "kill" as const,
    atMs: 15_000 + 20_000 * i,
    node: "rollout-0.2",
    isSeen: true,
  }));

/** Canaries of replicas of several processes. */
export const rankCanaries: readonly Canary[] = [
  logicBug("ranks-not-awaited", "a rank begins again while others of its replica's last life still run", {
    profile: "fleet",
    seedsMax: 30,
    shape: threeProcesses,
    stage: ranksEnd,
    line: {
      does: (effect) => {
        if (effect.type !== "command" || effect.kind !== "node.assign" || !effect.body.ranks) return effect;
        const ranks = effect.body.ranks.map((rank) => ({ ...rank, isDue: true }));
        return { ...effect, body: { ...effect.body, ranks } };
      },
    },
  }),
  logicBug("rank-forgotten", "a replica is placed without its last rank", {
    profile: "fleet",
    seedsMax: 30,
    shape: threeProcesses,
    line: {
      keeps: (after) => {
        const rows = Object.entries(after.fleet.replicas);
        if (!rows.some(([, { group }]) => group?.ranks.length === 2)) return after;
        const short = rows.map(([id, row]) =>
          row.group ? [id, { ...row, group: { ...row.group, ranks: row.group.ranks.slice(0, 1) } }] : [id, row],
        );
        return { ...after, fleet: { ...after.fleet, replicas: Object.fromEntries(short) } };
      },
    },
  }),
];

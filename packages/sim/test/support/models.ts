/** The models of the simulator without a cluster: a world, processes and a network, and nothing that goes wrong by itself. */

import type { Arm } from "../../src/faults/failpoints.ts";
import { Failpoints } from "../../src/faults/failpoints.ts";
import { Network } from "../../src/net/network.ts";
import type { StoredMessage } from "../../src/net/wire.ts";
import { SimProcess } from "../../src/world/process.ts";
import { VirtualWorld, type World } from "../../src/world/world.ts";

/** A world with a network, for tests of the models. */
export interface Models {
  readonly world: World;
  readonly network: Network;
  readonly failpoints: Failpoints;
  /** What the broker stored, in order. */
  readonly stored: StoredMessage[];
  process(node: string, role?: string): SimProcess;
  /** Lets time pass. */
  runFor(ms: number): Promise<void>;
}

/** Makes the models; `arms` are failpoints. */
export function modelsOf(arms: readonly Arm[] = []): Models {
  const world = new VirtualWorld(1);
  const stored: StoredMessage[] = [];
  const failpoints = new Failpoints(arms, ({ action }, process) => {
    if (action.type === "crash") process.kill();
    if (action.type === "pause") process.freeze("paused");
  });
  const observer = { stored: (message: StoredMessage) => void stored.push(message), accepted: () => {} };
  const network = new Network({ world, job: "test", failpoints, observer });
  let lives = 0;
  return {
    world,
    network,
    failpoints,
    stored,
    process: (node, role = node) => {
      const life = ++lives;
      return new SimProcess(world, { name: `${node}#${life}`, node, role, pid: life, clockOffsetMs: 0, clockRate: 1 });
    },
    runFor: async (ms) => {
      const untilMs = world.nowMs + ms;
      world.after(ms, () => {});
      await world.run(() => world.nowMs >= untilMs, untilMs);
    },
  };
}

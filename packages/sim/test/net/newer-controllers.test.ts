/** Controllers of a newer minor version than that of their replicas, as in an update that begins with them. */
import { newerMinor } from "@muster/testkit";
import { expect, it } from "vitest";
import type { Scenario } from "../../src/cluster/scenario.ts";
import { Network } from "../../src/net/network.ts";
import type { NetworkOptions } from "../../src/net/wire.ts";
import { drawScenario, withTrainersOf } from "../../src/seed/draw-scenario.ts";
import { runScenario } from "../../src/seed/run-scenario.ts";
import { VirtualWorld } from "../../src/world/world.ts";

/** A network on which controllers speak the next minor version; `said` counts their messages. */
class Updated extends Network {
  readonly said = { count: 0 };

  override async connect(...[process, name]: Parameters<Network["connect"]>): ReturnType<Network["connect"]> {
    const transport = await super.connect(process, name);
    return process.role === "controller" ? newerMinor(transport, this.said) : transport;
  }
}

it.each<[string, number]>([
  ["replicas of one process", 1],
  ["trainers of several processes", 2],
])("%s end with the weights of their quiet run under newer controllers, one of which dies", async (_, size) => {
  const scenario = drawScenario(2, "quiet");
  const sync = { ...scenario.config, mode: "sync" as const, stalenessMax: 0, steps: 4 };
  const quiet: Scenario = { ...scenario, config: withTrainersOf(sync, size), faults: [], safetyMs: 0 };
  const { end: wanted } = await runScenario(quiet);
  const faults = [{ kind: "kill" as const, atMs: 15_000, isSeen: true, node: "controller" }];
  let updated: Updated | null = null;
  const makeNetwork = (options: NetworkOptions): Network => {
    updated = new Updated(options);
    return updated;
  };
  const mixed = { ...quiet, faults, safetyMs: 60_000 };
  // Two invariants compare what is said with what this version would have said.
  const stage = { world: new VirtualWorld(quiet.seed), makeNetwork, unjudged: ["S4", "S34"] };
  const { violations, end, faults: struck } = await runScenario(mixed, undefined, stage);
  expect(violations).toEqual([]);
  expect(end).toMatchObject({ outcome: "done", sections: wanted?.sections });
  expect(struck.get("kill")).toBe(1);
  expect((updated as Updated | null)?.said.count).toBeGreaterThan(50);
});

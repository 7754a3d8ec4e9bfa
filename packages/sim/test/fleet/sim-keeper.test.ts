import type { StartOrder } from "@muster/actors/internal";
import { silentLogger } from "@muster/base";
import { expect, it } from "vitest";
import { type Child, SimKeeper } from "../../src/fleet/sim-keeper.ts";
import { modelsOf } from "../support/models.ts";

it("a node that is killed in the turn in which it begins to start a process starts none", async () => {
  const { process, failpoints, runFor } = modelsOf();
  const spawned: string[] = [];
  const keeperOf = (node: string) => {
    const own = process(node, "node");
    const spawn = ({ id }: StartOrder): Child => {
      spawned.push(id);
      return { id, node, process: process(id, "policy"), devices: [], code: null, stop() {} };
    };
    const given = { node, clock: own.clock, logger: silentLogger, onStarted() {}, onExit() {} };
    return { own, keeper: new SimKeeper(given, { process: own, notes: new Map(), failpoints, bug: {}, spawn }) };
  };
  const [dead, living] = [keeperOf("node-1"), keeperOf("node-2")];
  void dead.keeper.start({ id: "policy-1", role: "policy", life: 1, devices: null });
  dead.own.kill();
  void living.keeper.start({ id: "policy-2", role: "policy", life: 1, devices: null });
  await runFor(100);
  expect(spawned).toEqual(["policy-2"]);
});

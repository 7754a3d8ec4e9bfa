import type { Body } from "@muster/protocol";
import { createMetrics } from "@muster/runtime";
import { expect, it } from "vitest";
import { figureMetersOn } from "../src/controller/figure-meters.ts";

it("the page has what each replica holds from the first commit on, and -1 for nothing of its lineage", async () => {
  const metrics = createMetrics();
  const take = figureMetersOn(metrics);
  const linesOf = async (): Promise<readonly string[]> =>
    (await metrics.render()).split("\n").filter((line) => /^muster_(replica_version|train_step)/.test(line));
  expect(await linesOf()).toEqual([]);
  take({ kind: "mesh.changed", body: { epoch: 1, members: [] } });
  expect(await linesOf()).toEqual([]);
  const held = [
    { id: "p0", version: 7 },
    { id: "r0", version: 0 },
    { id: "r1", version: null },
  ];
  take({ kind: "step.committed", body: { step: 7, held } as unknown as Body<"step.committed"> });
  expect(await linesOf()).toEqual([
    "muster_train_step 7",
    'muster_replica_version{replica="p0"} 7',
    'muster_replica_version{replica="r0"} 0',
    'muster_replica_version{replica="r1"} -1',
  ]);
});

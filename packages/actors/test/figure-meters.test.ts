import { type Body, figureMetricOf, stepFigures } from "@muster/protocol";
import { createMetrics } from "@muster/runtime/metrics";
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

it("the page has the figures that the last commit has, and none of those that it has not", async () => {
  const metrics = createMetrics();
  const take = figureMetersOn(metrics);
  const body = { step: 7, reward: 0.25, gradNorm: 3 } as unknown as Body<"step.committed">;
  take({ kind: "step.committed", body });
  const page = await metrics.render();
  const lines = stepFigures.flatMap(({ field }) =>
    page.split("\n").filter((line) => line.startsWith(`${figureMetricOf(field)} `)),
  );
  expect(lines.toSorted()).toEqual([`${figureMetricOf("gradNorm")} 3`, `${figureMetricOf("reward")} 0.25`].toSorted());
});

it("the page has the parts of rewards, under a bounded number of names however many a reward makes up", async () => {
  const metrics = createMetrics();
  const take = figureMetersOn(metrics);
  const commit = (...names: readonly string[]): void => {
    const components = names.map((name) => ({ name, count: 8, mean: 0.5, spread: 0.25, least: 0, most: 1 }));
    take({ kind: "step.committed", body: { step: 1, components } as unknown as Body<"step.committed"> });
  };
  const linesOf = async (): Promise<readonly string[]> =>
    (await metrics.render()).split("\n").filter((line) => line.startsWith("muster_train_reward_component"));
  commit("form");
  expect(await linesOf()).toEqual([
    'muster_train_reward_component_mean{component="form"} 0.5',
    'muster_train_reward_component_spread{component="form"} 0.25',
    'muster_train_reward_component_count{component="form"} 8',
  ]);
  for (let step = 0; step < 100; step++) commit("form", `made-up-${step}`);
  expect(await linesOf()).toHaveLength(3);
  commit("form", ...Array.from({ length: 100 }, (_, step) => `made-up-${step}`));
  expect(await linesOf()).toHaveLength(3 * 32);
});

import { controllerLogic, planOf } from "@muster/machines/controller";
import { createMetrics } from "@muster/runtime/metrics";
import { expect, it } from "vitest";
import { metersOf } from "../src/controller/meters.ts";
import { smallConfig } from "./support/small-config.ts";

it("the page of a job has its steps and its weight version, which is 0 before there are weights", async () => {
  const metrics = createMetrics();
  const take = metersOf(metrics);
  const { snapshot } = controllerLogic.init(planOf(smallConfig("never-written")));
  const linesOf = async (): Promise<readonly string[]> =>
    (await metrics.render()).split("\n").filter((line) => /^muster_job_(steps|weight_version)/.test(line));
  take(snapshot);
  expect(await linesOf()).toEqual(["muster_job_steps 0", "muster_job_weight_version 0"]);
  const { state } = snapshot.context;
  const weights = { lineage: 0, version: 7, sections: [] };
  const later = { ...state, weights, step: { ...state.step, step: 9 } };
  take({ ...snapshot, context: { ...snapshot.context, state: later } });
  expect(await linesOf()).toEqual(["muster_job_steps 8", "muster_job_weight_version 7"]);
});

it("the page of a job has its trajectories by account, those that no account explains, and its members by role", async () => {
  const metrics = createMetrics();
  const { snapshot } = controllerLogic.init(planOf(smallConfig("never-written")));
  const ledger = { admitted: 9, trained: 4, aborted: 2, quarantined: 1 };
  const members = { "rollout-0": { id: "rollout-0", role: "rollout" } };
  const state = { ...snapshot.context.state, ledger, members } as unknown as typeof snapshot.context.state;
  metersOf(metrics)({ ...snapshot, context: { ...snapshot.context, state } });
  const page = await metrics.render();
  for (const line of [
    'muster_ledger_trajectories{account="trained"} 4',
    'muster_ledger_trajectories{account="pending"} 0',
    "muster_ledger_imbalance 2",
    'muster_job_members{role="rollout"} 1',
    'muster_job_members{role="policy"} 0',
  ])
    expect(page.split("\n")).toContain(line);
});

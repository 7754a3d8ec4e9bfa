/** A host that shows signs of a failure to come: new work goes elsewhere before it fails (semantics 6.14). */
import { chmodSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { makeTempDirectory, spawnMuster, type TempDirectory } from "@muster/testkit";
import { afterAll, beforeAll, expect, test } from "vitest";
import { openRuns, type Runs } from "./support/small-job.ts";

let runs: Runs;
let tools: TempDirectory;
beforeAll(async () => {
  runs = await openRuns();
  tools = await makeTempDirectory();
});
afterAll(async () => {
  await runs.close();
  await tools.remove();
});

test("a node whose GPU counts errors gets no new replicas, what it runs goes on, and the operator reads why", async () => {
  const counter = join(tools.path, "errors");
  const driver = join(tools.path, "nvidia-smi");
  writeFileSync(counter, "0");
  writeFileSync(driver, `#!/bin/sh\necho "0, $(cat ${counter}), No, Not Active"\n`);
  chmodSync(driver, 0o755);
  const run = await runs.start("signs", "--steps", "100000", "--rollout", "1");
  await run.waitForEvent("step.committed");
  const args = ["node", "--runs", runs.path, "--job", "signs", "--id", "ill"];
  const node = await spawnMuster(args, { env: { PATH: `${tools.path}:${process.env.PATH}` } });
  try {
    await run.waitForEvent("member.joined", ({ id }) => id === "ill");
    const scale = async (count: number) => {
      const { code } = await (await runs.muster("scale", `rollout=${count}`, "--job", "signs")).exited;
      expect(code).toBe(0);
      const placed = run.events("fleet.changed").filter(({ to, role }) => to === "STARTING" && role === "rollout");
      return placed.map((event) => event.node).slice(1);
    };
    expect(await scale(2)).toEqual(["ill"]);
    writeFileSync(counter, "7");
    const alarm = await run.waitForEvent("alarm.raised", ({ alarm: what }) => what === "signs", 40_000);
    expect(alarm.detail).toBe(
      "ill may fail soon: GPU 0: 7 memory errors beyond correction; it gets no new work until muster uncordon ill",
    );
    expect(await scale(3)).toEqual(["ill", "node-0"]);
    const status = await runs.muster("status", "--job", "signs");
    await status.exited;
    expect(status.lines.join("\n")).toContain("ill 1 cordoned (GPU 0: 7 memory errors beyond correction)");
    expect(run.events("member.died")).toEqual([]);
  } finally {
    await (await runs.muster("stop", "--job", "signs")).exited;
    await node.exited;
  }
});

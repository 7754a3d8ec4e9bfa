/** Groups that are too large for one message together. */
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { ledgerOf } from "@muster/machines/controller";
import { makeTempDirectory } from "@muster/testkit";
import { afterEach, describe, expect, it, vi } from "vitest";
import { endOf, openJob, type SmallJob } from "./support/small-job.ts";

vi.setConfig({ testTimeout: 120_000 });

let job: SmallJob | undefined;
let folder: Awaited<ReturnType<typeof makeTempDirectory>> | undefined;
afterEach(async () => {
  await job?.close();
  await folder?.remove();
});

/** One step of 4,096 trajectories, which a replica draws in one go: with an error of 1 KiB each, 4 MiB in the groups stream. */
const large = [
  "job.steps=1",
  "batch.groups_per_step=16",
  "batch.group_size=256",
  "limits.chunk_groups=16",
  "limits.lease_groups=16",
  "evaluation.prompts=0",
  "evaluation.every_steps=0",
  "failure.abort_share_max=1",
  "failure.same_error_max=0",
];

describe("a chunk that is larger than a message", () => {
  it("is stored in several, with the beginnings of its errors in whatever script, and nobody is to blame for it", async () => {
    folder = await makeTempDirectory();
    const reward = join(folder.path, "reward.mjs");
    await writeFile(reward, `export default () => { throw new RangeError("答えが長すぎます".repeat(500)); };`);
    job = await openJob([...large, `task.reward=${reward}`]);
    const controller = await job.startController();
    job.startTeam({ policy: 2, rollout: 1 });
    expect((await endOf(controller)).outcome).toBe("done");
    const { state } = controller.snapshot().context;
    expect(ledgerOf(state)).toMatchObject({ trained: 0, aborted: 4_096, quarantined: 0, pending: 0 });
    expect(job.events("groups.released")).toEqual([]);
    const whole = `${"答えが長すぎます".repeat(500).slice(0, 1_999)}…`;
    expect(state.givenUp.causes).toMatchObject([{ name: "RangeError", message: whole, count: 4_096 }]);
  });
});

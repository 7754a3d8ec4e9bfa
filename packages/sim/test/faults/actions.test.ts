import { describe, expect, it } from "vitest";
import type { Arm } from "../../src/faults/failpoints.ts";
import { SimDisk } from "../../src/plane/sim-disk.ts";
import { modelsOf } from "../support/models.ts";

const subject = "muster.test.reports.policy.policy-1.step.voted";
const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);
const arm = (point: string, action: Arm["action"]): Arm => ({ point, nth: 1, action });

/** When a controller takes in each of two votes, ms, while the point at which it hears the first is armed. */
async function heardAt(action: Arm["action"], forMs: number): Promise<readonly (readonly [string, number])[]> {
  const { world, network, process, runFor } = modelsOf([arm("controller.on.step.voted", action)]);
  const sender = await network.connect(process("policy-1", "policy"));
  const controller = process("controller");
  const receiver = await network.connect(controller);
  const heard: (readonly [string, number])[] = [];
  await receiver.consume({
    ...{ stream: "reports", consumer: "controller", filter: "muster.test.reports.>", deliver: "all", maxPending: 10 },
    handle: ({ data, ack }) => {
      heard.push([new TextDecoder().decode(data), Math.round(world.nowMs / 1_000)]);
      ack();
    },
  });
  for (const name of ["first", "second"]) void sender.publish(subject, bytes(name), { msgId: name });
  await runFor(forMs);
  controller.thaw();
  await runFor(100);
  return heard;
}

describe("what is done at a failpoint", () => {
  it("lets a message be heard later than those after it, when it is delayed", async () => {
    expect(await heardAt({ type: "delay", delayMs: 2_000 }, 3_000)).toEqual([
      ["second", 0],
      ["first", 2],
    ]);
  });

  it("lets a process that is paused on a message take it in when it runs again, before those that came meanwhile", async () => {
    expect(await heardAt({ type: "pause", forMs: 3_000 }, 3_000)).toEqual([
      ["first", 3],
      ["second", 3],
    ]);
  });

  it("leaves a sender in doubt at once when the broker has stored and says that it does not know", async () => {
    const { world, network, process, stored, runFor } = modelsOf([
      arm("policy.after-publish.step.voted", { type: "error" }),
    ]);
    const transport = await network.connect(process("policy-1", "policy"));
    const outcome = transport
      .publish(subject, bytes("vote"), { msgId: "m1" })
      .then(String, ({ code }) => `${code} after ${Math.round(world.nowMs / 1_000)} s`);
    await runFor(6_000);
    expect(await outcome).toBe("MUSTER_ERR_PUBLISH_UNKNOWN after 0 s");
    expect(stored).toHaveLength(1);
  });

  it("lets a call to the disk never end, and leaves the disk as it was", async () => {
    const { failpoints, process, runFor } = modelsOf([arm("checkpoint.fs-mkdir", { type: "drop" })]);
    const disk = new SimDisk(failpoints);
    const fs = disk.fsOf(process("checkpoint-1", "checkpoint"));
    await disk.fs.prepareRoot("/store");
    let hasEnded = false;
    const end = (): void => {
      hasEnded = true;
    };
    void fs.makeDirectory("/store/one").then(end, end);
    await runFor(60_000);
    expect([hasEnded, await disk.fs.list("/store")]).toEqual([false, []]);
  });
});

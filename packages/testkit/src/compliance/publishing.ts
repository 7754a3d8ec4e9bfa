/** Publishing, fetching, purging. */
import { expect, test } from "vitest";
import type { Actors } from "./actors.ts";
import { bytes, publishAll, subjects, text } from "./helpers.ts";

export function testPublishing(actors: () => Actors): void {
  test("a message id is stored once however often it is published", async () => {
    const { rollout } = actors();
    const subject = subjects(rollout).groups("r0");
    const first = await rollout.publish(subject, bytes("a"), { msgId: "same" });
    const again = await rollout.publish(subject, bytes("a"), { msgId: "same" });
    const other = await rollout.publish(subject, bytes("b"), { msgId: "other" });
    expect([first, again, other]).toEqual([
      { seq: 1, duplicate: false },
      { seq: 1, duplicate: true },
      { seq: 2, duplicate: false },
    ]);
  });

  test("the sender may reuse its buffer after publishing", async () => {
    const { rollout, policy } = actors();
    const buffer = bytes("kept");
    const { seq } = await rollout.publish(subjects(rollout).groups("r0"), buffer, { msgId: "1" });
    buffer.fill(0);
    expect(text(await policy.fetch("groups", seq))).toBe("kept");
  });

  test("a message over one mebibyte is refused for good", async () => {
    const { rollout } = actors();
    const subject = subjects(rollout).groups("r0");
    await rollout.publish(subject, new Uint8Array(1024 ** 2), { msgId: "1" });
    const tooLarge = rollout.publish(subject, new Uint8Array(1024 ** 2 + 1), { msgId: "2" });
    await expect(tooLarge).rejects.toMatchObject({ code: "MUSTER_ERR_BROKER_REFUSED", retryable: false });
  });

  test("purging removes what is below a sequence and fetching it says so", async () => {
    const { controller, rollout, policy } = actors();
    await publishAll(rollout, subjects(rollout).groups("r0"), ["1", "2", "3"]);
    await controller.purge("groups", 3);
    await expect(policy.fetch("groups", 2)).rejects.toMatchObject({ code: "MUSTER_ERR_MESSAGE_GONE" });
    await expect(policy.fetch("groups", 4)).rejects.toMatchObject({ code: "MUSTER_ERR_MESSAGE_GONE" });
    expect(text(await policy.fetch("groups", 3))).toBe("3");
  });

  test("what comes after a purge beyond the end has the sequence before which all was purged, or a later one", async () => {
    const { controller, rollout } = actors();
    const subject = subjects(rollout).groups("r0");
    await publishAll(rollout, subject, ["1", "2", "3"]);
    await controller.purge("groups", 8);
    expect(await rollout.publish(subject, bytes("8"), { msgId: "8" })).toEqual({ seq: 8, duplicate: false });
    expect(await controller.usage("groups")).toMatchObject({ lastSeq: 8 });
  });
}

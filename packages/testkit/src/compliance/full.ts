/** Streams at their limit: who is refused, that nothing is lost, and that it goes on when there is room. */
import { hasCode } from "@muster/base";
import { streamRules } from "@muster/transport/internal";
import { expect, test } from "vitest";
import type { Actors } from "./actors.ts";
import { bytes, subjects, text } from "./helpers.ts";

/** Bytes that the streams of these tests hold. */
export const fullBytes = 64 * 1024;
const record = new Uint8Array(8 * 1024);
const one = new Uint8Array(1);
const { perSubjectMax = 0 } = streamRules.reports;
/** More records than fit. */
const tooMany = 10;

/** Repeats an attempt until it is refused. @returns How many went well, and the refusal. */
async function untilRefused(attempt: (n: number) => Promise<unknown>): Promise<{ stored: number; error: unknown }> {
  for (let n = 0; n < tooMany; n++) {
    try {
      await attempt(n);
    } catch (error) {
      return { stored: n, error };
    }
  }
  throw new Error(`${tooMany} records fit into ${fullBytes} bytes`);
}

export function testFull(actors: () => Actors): void {
  test("a full stream refuses for the time being, and takes the same message once when it was purged", async () => {
    const { controller, rollout, policy } = actors();
    const subject = subjects(rollout).groups("r0");
    const { stored, error } = await untilRefused((n) => rollout.publish(subject, record, { msgId: `m${n}` }));
    expect(error).toMatchObject({ code: "MUSTER_ERR_STREAM_FULL", retryable: true });
    expect(error).toMatchObject({ params: { stream: `muster-${rollout.job}-groups`, limit: "2.0 GiB" } });
    expect(String(error)).toContain("replicas.checkpoint");

    const late = bytes("late");
    const again = rollout.publish(subject, new Uint8Array([...record, ...late]), { msgId: `m${stored}` });
    await expect(again).rejects.toMatchObject({ code: "MUSTER_ERR_STREAM_FULL" });
    await controller.purge("groups", stored);
    const payload = new Uint8Array([...record, ...late]);
    const first = await rollout.publish(subject, payload, { msgId: `m${stored}` });
    expect(first).toEqual({ seq: stored + 1, duplicate: false });
    expect(await rollout.publish(subject, payload, { msgId: `m${stored}` })).toEqual({ ...first, duplicate: true });
    expect(text((await policy.fetch("groups", first.seq)).subarray(record.byteLength))).toBe("late");
  });

  test("a stream says how much it holds and may hold, before it is full and after it was purged", async () => {
    const { controller, rollout } = actors();
    expect(await controller.usage("groups")).toEqual({ bytes: 0, bytesMax: fullBytes, lastSeq: 0 });
    const { stored } = await untilRefused((n) =>
      rollout.publish(subjects(rollout).groups("r0"), record, { msgId: `m${n}` }),
    );
    const full = await controller.usage("groups");
    expect(full.lastSeq).toBe(stored);
    expect(full.bytes).toBeGreaterThanOrEqual(stored * record.byteLength);
    expect(full.bytes).toBeLessThanOrEqual(fullBytes);
    expect(full.bytes + record.byteLength).toBeGreaterThan(fullBytes - 1024);
    await controller.purge("groups", stored);
    const rest = await controller.usage("groups");
    expect(rest.bytes).toBeGreaterThanOrEqual(record.byteLength);
    expect(rest.bytes).toBeLessThan(2 * record.byteLength);
  });

  test("a message that a full stream holds already is known by its id", async () => {
    const { rollout } = actors();
    const subject = subjects(rollout).groups("r0");
    await untilRefused((n) => rollout.publish(subject, record, { msgId: `m${n}` }));
    expect(await rollout.publish(subject, record, { msgId: "m0" })).toEqual({ seq: 1, duplicate: true });
  });

  test("reports of one kind that nobody takes away are refused at their bound, and others are not kept out by them", async () => {
    const { rollout, policy } = actors();
    const place = subjects(rollout);
    const of = (n: number) => rollout.publish(place.report("rollout", "r0", "replica.left"), one, { msgId: `m${n}` });
    await Promise.all(Array.from({ length: perSubjectMax }, (_, n) => of(n)));
    await expect(of(perSubjectMax)).rejects.toMatchObject({ code: "MUSTER_ERR_STREAM_FULL", retryable: true });
    expect(await of(0)).toMatchObject({ duplicate: true });
    await rollout.publish(place.report("rollout", "r0", "groups.completed"), one, { msgId: "other kind" });
    await policy.publish(place.report("policy", "p0", "replica.left"), one, { msgId: "other sender" });
  });

  test("a full journal is final, names itself, and keeps every record", async () => {
    const journal = actors().controller.journal();
    const { stored, error } = await untilRefused((n) => journal.append(record, n, `t1/${n}`));
    expect(hasCode(error, "MUSTER_ERR_JOURNAL_FULL")).toBe(true);
    expect(error).toMatchObject({ retryable: false, params: { stream: "muster-test-journal", limit: "1.0 GiB" } });
    expect(String(error)).toContain("newest checkpoint");
    expect(await journal.head()).toBe(stored);
  });
}

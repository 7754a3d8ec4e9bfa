import { silentLogger } from "@muster/base";
import { createEnveloper } from "@muster/protocol";
import { createMetrics } from "@muster/runtime/metrics";
import { expect, it } from "vitest";
import { eventOf } from "../src/controller/heard-event.ts";
import { inputGuard } from "../src/controller/input-guard.ts";

it("an input as large as the largest that a record takes is taken in, and one byte more is put aside", () => {
  const alarms: string[] = [];
  const voice = createEnveloper({ job: "j", id: "policy-0", role: "policy", incarnation: "p1", wallMs: () => 0 });
  const message = voice.stamp("mesh.failed", { epoch: 3, cause: "torn", missing: [] });
  const event = eventOf(message, 0);
  const guardOf = (recordBytes: number) =>
    inputGuard({
      logger: silentLogger,
      metrics: createMetrics(),
      alarm: (detail) => void alarms.push(detail),
      recordBytes,
    });
  const bytes = guardOf(0).weigh(event);
  // An input that stands alone may take a quarter more than a record: so much that this one just fits, and that it just does not.
  const guards = [bytes + 0.5, bytes - 0.5].map((room) => guardOf(room / 1.25));
  expect(guards.map((guard) => guard.isTooLarge(message, event))).toEqual([false, true]);
  expect(alarms).toEqual([expect.stringContaining(`it has ${bytes} bytes`)]);
});

it("a report over which the machine throws is put aside at its third delivery, in whatever terms, with the beginning of the reason", () => {
  const alarms: string[] = [];
  const metrics = createMetrics();
  const guard = inputGuard({
    ...{ logger: silentLogger, metrics, recordBytes: 1_000 },
    alarm: (detail) => void alarms.push(detail),
  });
  const voice = createEnveloper({ job: "j", id: "policy-0", role: "policy", incarnation: "p1", wallMs: () => 0 });
  const message = voice.stamp("mesh.failed", { epoch: 3, cause: "torn", missing: [] });
  const error = new Error("y".repeat(5_000));
  expect([0, 1, 2].map((redeliveries) => guard.isUnbearable(message, redeliveries, error))).toEqual([
    false,
    false,
    true,
  ]);
  expect(alarms).toEqual([expect.stringContaining(`threw over it 3 times (${"y".repeat(300)})`)]);
});

it("the operator hears of the first 32 inputs that are put aside, with the last one that later ones are only counted, and all are", async () => {
  const alarms: string[] = [];
  const metrics = createMetrics();
  const guard = inputGuard({
    ...{ logger: silentLogger, metrics, recordBytes: 1 },
    alarm: (detail) => void alarms.push(detail),
  });
  const voice = createEnveloper({ job: "j", id: "policy-0", role: "policy", incarnation: "p1", wallMs: () => 0 });
  for (let i = 0; i < 40; i++) {
    const message = voice.stamp("mesh.failed", { epoch: i, cause: "torn", missing: [] });
    expect(guard.isTooLarge(message, eventOf(message, 0))).toBe(true);
  }
  expect(alarms).toHaveLength(32);
  expect(alarms.map((alarm) => alarm.endsWith("; later ones are only counted")).lastIndexOf(false)).toBe(30);
  expect(alarms[31]).toMatch(/; later ones are only counted$/);
  expect(await metrics.render()).toMatch(/inputs_aside_total\{kind="mesh.failed",reason="too_large"\} 40$/m);
});

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

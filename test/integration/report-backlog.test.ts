import { type ControllerOptions, decodeRecord, startController } from "@muster/actors/controller";
import { replayJournal } from "@muster/actors/internal";
import { planOf } from "@muster/machines/controller";
import {
  type Body,
  type CauseCount,
  createEnveloper,
  encodeMessage,
  type GroupReceipt,
  subjectsOf,
} from "@muster/protocol";
import { startTestServer, type TestServer, waitFor } from "@muster/testkit";
import type { Transport } from "@muster/transport";
import { afterEach, beforeEach, expect, test } from "vitest";
import { config, environmentOf } from "./support/controller.ts";

const receipt = (step: number, index: number): GroupReceipt => ({
  step,
  index,
  attempt: 1,
  streamSeq: 1_000_000 + index,
  version: step,
  completed: 16,
  aborted: 0,
  tokens: 123_456,
  rewardSum: 7.5,
});
const cause = (at: number, text: string): CauseCount => ({
  name: "TypeError",
  message: text.repeat(2_000 / text.length),
  count: 1,
  failure: "user_error",
  frame: `reward (file:///jobs/reward-${at}.js:1:1)`,
  stack: text.repeat(4_000 / text.length),
  sample: "1.2/3",
});
type Completed = Body<"groups.completed">;
const completed = (receipts: number, causes: readonly CauseCount[]): Completed => ({
  leaseId: "l1",
  receipts: Array.from({ length: receipts }, (_, index) => receipt(1, index)),
  causes: [...causes],
  durationMs: 1_000,
});
const many = (count: number, make: (at: number) => Completed) => Array.from({ length: count }, (_, at) => make(at));

let server: TestServer;
let controllers: number;
beforeEach(async () => {
  server = await startTestServer();
  controllers = 0;
});
afterEach(() => server.close());

const begin = () =>
  startController({
    config,
    dataKey: new Uint8Array(32),
    environment: environmentOf(server, () => `c${++controllers}`),
  } satisfies ControllerOptions);

/** Stores reports of a sampler while nobody acts for the job. */
async function store(bodies: readonly Completed[]): Promise<void> {
  const rollout: Transport = await server.connect("rollout.rollout-1.a1");
  const voice = createEnveloper({ job: "test", id: "rollout-1", role: "rollout", incarnation: "a1", wallMs: Date.now });
  for (const body of bodies) {
    const message = voice.stamp("groups.completed", body);
    const subject = subjectsOf("test").report("rollout", "rollout-1", message.kind);
    await rollout.publish(subject, encodeMessage(message), { msgId: message.id });
  }
}

test.each([
  ["256 healthy reports of 64 groups", many(256, () => completed(64, []))],
  ["256 reports that carry one error each", many(256, (at) => completed(1, [cause(at, "x")]))],
  [
    "8 reports as large as a report may be",
    many(8, (at) =>
      completed(
        1_024,
        Array.from({ length: 32 }, (_, i) => cause(32 * at + i, "理")),
      ),
    ),
  ],
])("a backlog of %s is taken in, in records that the broker takes, and the job goes on", async (_, bodies) => {
  await store(bodies);
  const controller = await begin();
  let end: string | null = null;
  void controller.ended.then(({ outcome, reason }) => {
    end = `${outcome}: ${reason}`;
  });
  const reader = await server.connect("controller.reader.r1");
  let taken = 0;
  const settled = async (): Promise<boolean> => {
    taken = 0;
    for await (const { seq, data } of reader.journal().read(1)) {
      taken += decodeRecord(seq, data).events.filter(({ type }) => type === "groups.completed").length;
    }
    return end !== null || taken === bodies.length;
  };
  await waitFor(settled, { what: "every report in the journal", timeoutMs: 30_000, detail: () => taken });
  expect(end).toBeNull();
  controller.abort("the test is over");
  expect((await controller.ended).outcome).toBe("aborted");
  const replayed = await replayJournal(reader.journal(), planOf(config));
  expect(replayed.snapshot.context).toEqual(controller.snapshot().context);
  // Whoever comes next finds nothing of it again.
  const next = await begin();
  await waitFor(() => next.snapshot().context.state.term === 2, { what: "the next term" });
  next.abort("the test is over");
  await next.ended;
  const last = await replayJournal(reader.journal(), planOf(config));
  expect(last.snapshot.context.state.dropped).toEqual(replayed.snapshot.context.state.dropped);
});

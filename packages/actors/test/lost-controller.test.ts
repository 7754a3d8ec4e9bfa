import { type AnyMessage, decodeMessage } from "@muster/protocol";
import { createMemoryBroker } from "@muster/transport/internal";
import { expect, it, vi } from "vitest";
import { startController } from "../src/controller/index.ts";
import { clock, processesOn } from "./support/environment.ts";
import { smallConfig } from "./support/small-config.ts";

/** Time-outs of the broker in a fiftieth of their time. */
const hasty = { now: () => 50 * clock.now(), after: (ms: number, run: () => void) => clock.after(ms / 50, run) };

it("a controller that does not know whether its record was stored leaves the job to the next one, and does not end it", async () => {
  const config = smallConfig("never-written");
  const broker = createMemoryBroker({ job: config.job, clock: hasty });
  const { environment, lives } = processesOn(broker)();
  const controller = await startController({ config, dataKey: new Uint8Array(32), environment });
  broker.disconnect(`controller.controller.${lives[0]}`);
  const end = await controller.ended;
  expect(end.outcome).toBe("lost");
  expect(end.reason).toContain("it may have been stored");
});

it("a controller whose journal is full ends the job with that cause, and says so to those who watch", async () => {
  const config = smallConfig("never-room");
  const broker = createMemoryBroker({ job: config.job, clock: hasty, bytesMax: { journal: 16 } });
  const events: AnyMessage[] = [];
  const watcher = broker.connect("watcher.w.w1");
  await watcher.tail({ stream: "events", fromSeq: 1, handle: ({ data }) => events.push(decodeMessage(data)) });
  const { environment } = processesOn(broker)();
  const end = await (await startController({ config, dataKey: new Uint8Array(32), environment })).ended;
  expect(end.outcome).toBe("failed");
  expect(end.reason).toContain(`the journal muster-${config.job}-journal takes no more`);
  expect(end.reason).toContain("1.0 GiB");
  const body = { alarm: "controller", detail: end.reason };
  expect(events).toMatchObject([{ kind: "alarm.raised", body }]);
});

it("a job whose store is lost for good goes on from its newest checkpoint in a new lineage and a higher term, and says so", async () => {
  const config = smallConfig("store-lost");
  const broker = createMemoryBroker({ job: config.job, clock });
  const { environment } = processesOn(broker)();
  const ledger = { trained: 60, aborted: 3, quarantined: 1 };
  const found = { step: 4, version: 3, lineage: 2, path: "/c/step-00000004-v3-t5", ledger };
  const begin = (restored: typeof found | null) =>
    startController({
      config,
      dataKey: new Uint8Array(32),
      environment,
      newestCheckpoint: async () => "step-00000004-v3-t5",
      restoreLost: async () => restored && { found: restored, term: 5 },
    });
  await expect(begin(null)).rejects.toThrow(`no checkpoint in ${config.checkpoint.directory} can be restored`);
  const events: AnyMessage[] = [];
  const watcher = broker.connect("watcher.w.w1");
  await watcher.tail({ stream: "events", fromSeq: 1, handle: ({ data }) => events.push(decodeMessage(data)) });
  const first = await begin(found);
  await vi.waitFor(() => expect(events.map(({ kind }) => kind)).toEqual(["alarm.raised", "job.started"]));
  expect(events[0]?.body).toMatchObject({
    alarm: "store-lost",
    detail: expect.stringContaining("going on from checkpoint step-00000004-v3-t5 after step 4 in lineage 3"),
  });
  first.abort("over");
  await first.ended;
  // Whoever takes over goes on from there, too: with the flag or without it, the journal is not empty any more.
  const second = await begin(null);
  await vi.waitFor(() => expect(second.snapshot().context.state.term).toBe(7));
  expect(second.snapshot().context.state).toMatchObject({
    restore: { lineage: 3, version: 3, source: { kind: "checkpoint", path: found.path } },
    step: { step: 5 },
    ledger: { admitted: 64, ...ledger },
  });
  second.abort("over");
  await second.ended;
});

it("a job whose journal is gone while its checkpoints are there is refused, and not begun anew", async () => {
  const config = smallConfig("journal-lost");
  const broker = createMemoryBroker({ job: config.job, clock });
  const { environment } = processesOn(broker)();
  const begin = (saved: string | null) =>
    startController({ config, dataKey: new Uint8Array(32), environment, newestCheckpoint: async () => saved });
  await expect(begin("step-00000004-v4-t2")).rejects.toThrow(
    `the journal of job ${config.job} is empty, but ${config.checkpoint.directory} has the checkpoint step-00000004-v4-t2`,
  );
  const first = await begin(null);
  await vi.waitFor(() => expect(first.snapshot().context.state.term).toBe(1));
  first.abort("over");
  await first.ended;
  const second = await begin("step-00000004-v4-t2");
  second.abort("over");
  await second.ended;
});

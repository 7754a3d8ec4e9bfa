import { controllerLogic } from "@muster/machines/controller";
import {
  type AnyMessage,
  type Body,
  createEnveloper,
  decodeMessage,
  encodeMessage,
  subjectsOf,
} from "@muster/protocol";
import { createMetrics } from "@muster/runtime/metrics";
import { createMemoryBroker, type MemoryBroker } from "@muster/transport/internal";
import { beforeEach, expect, it, vi } from "vitest";
import { type Controller, type ControllerLogic, decodeRecord, startController } from "../src/controller/index.ts";
import { clock, processesOn } from "./support/environment.ts";
import { smallConfig } from "./support/small-config.ts";

vi.setConfig({ testTimeout: 30_000 });

/** Time-outs of the broker in a fiftieth of their time. */
const hasty = { now: () => 50 * clock.now(), after: (ms: number, run: () => void) => clock.after(ms / 50, run) };
const config = smallConfig("never-written");

/** Logic with a fault: it throws over one kind of report. */
const faulty: ControllerLogic = {
  ...controllerLogic,
  step(snapshot, event) {
    if (event.type === "mesh.failed") throw new Error("no such epoch");
    return controllerLogic.step(snapshot, event);
  },
};

let broker: MemoryBroker;
let newProcess: ReturnType<typeof processesOn>;
let alarms: string[];
let metrics: ReturnType<typeof createMetrics>;
const voice = createEnveloper({ job: config.job, id: "policy-7", role: "policy", incarnation: "p1", wallMs: () => 0 });
const sampler = createEnveloper({
  ...voice.identity,
  id: "rollout-7",
  role: "rollout",
  incarnation: "r1",
  wallMs: () => 0,
});

beforeEach(async () => {
  broker = createMemoryBroker({ job: config.job, clock: hasty });
  newProcess = processesOn(broker);
  metrics = createMetrics();
  alarms = [];
  await broker.connect("watcher.w.w1").tail({
    stream: "events",
    fromSeq: 1,
    handle: ({ data }) => {
      const { kind, body } = decodeMessage(data) as AnyMessage;
      if (kind === "alarm.raised" && body.alarm === "input") alarms.push(body.detail);
    },
  });
});

const begin = (options: { readonly logic?: ControllerLogic; readonly recordBytes?: number }): Promise<Controller> => {
  const environment = { ...newProcess().environment, metrics };
  return startController({ config, dataKey: new Uint8Array(32), environment, ...options });
};
async function report(message: AnyMessage): Promise<void> {
  const subject = subjectsOf(config.job).report(message.role, message.from, message.kind);
  await broker.connect("policy.policy-7.p1").publish(subject, encodeMessage(message), { msgId: message.id });
}
const failed = (cause: string): AnyMessage => voice.stamp("mesh.failed", { epoch: 3, cause, missing: [] });
const asked = (bytes: number): AnyMessage =>
  sampler.stamp("groups.returned", { leaseId: "l1", items: items(bytes), reason: "x" });
const items = (bytes: number): Body<"groups.returned">["items"] =>
  Array.from({ length: Math.ceil(bytes / 40) }, (_, index) => ({ purpose: "train", step: 1, index, attempt: 1 }));
async function journaled(): Promise<readonly string[]> {
  const types: string[] = [];
  for await (const { seq, data } of broker.connect("reader.r.r1").journal().read(1))
    types.push(...decodeRecord(seq, data).events.map(({ type }) => type));
  return types;
}

it("a report over which one controller after the other throws ends two of them, and the third puts it aside and goes on", async () => {
  await report(failed("torn"));
  await report(asked(40));
  for (const _ of ["first", "second"]) {
    const { outcome, reason } = await (await begin({ logic: faulty })).ended;
    expect(outcome).toBe("failed");
    expect(reason).toContain("no such epoch");
    expect(alarms).toEqual([]);
  }
  const third = await begin({ logic: faulty });
  await vi.waitFor(async () => expect(await journaled()).toContain("groups.returned"), { timeout: 10_000 });
  await vi.waitFor(() => expect(alarms).toHaveLength(1));
  expect(alarms[0]).toContain("mesh.failed of policy policy-7 is put aside and counts as never said");
  expect(alarms[0]).toContain("(no such epoch)");
  expect(await metrics.render()).toContain(
    'muster_controller_inputs_aside_total{kind="mesh.failed",reason="unbearable"} 1',
  );
  third.abort("over");
  expect((await third.ended).outcome).toBe("aborted");
  // It is gone for good: a controller without the fault does not find it.
  const fourth = await begin({});
  await vi.waitFor(() =>
    expect(fourth.snapshot().context.state.term).toBeGreaterThan(third.snapshot().context.state.term),
  );
  expect(await journaled()).not.toContain("mesh.failed");
  fourth.abort("over");
  await fourth.ended;
});

it("what the controller throws over a report is told in bounded words", async () => {
  const verbose: ControllerLogic = {
    ...controllerLogic,
    step(snapshot, event) {
      if (event.type === "mesh.failed") throw new Error("no such epoch ".repeat(200));
      return controllerLogic.step(snapshot, event);
    },
  };
  await report(failed("torn"));
  for (const _ of ["first", "second"]) await (await begin({ logic: verbose })).ended;
  const third = await begin({ logic: verbose });
  await vi.waitFor(() => expect(alarms).toHaveLength(1), { timeout: 10_000 });
  expect(alarms[0]).toContain("no such epoch");
  expect(alarms[0]?.length).toBeLessThan(500);
  third.abort("over");
  await third.ended;
});

it("a report that fits into no record is put aside at once with its size, and what came with it is taken in", async () => {
  await report(asked(40));
  await report(asked(4_000));
  await report(failed("torn"));
  const controller = await begin({ recordBytes: 2_000 });
  await vi.waitFor(async () => expect(await journaled()).toEqual(expect.arrayContaining(["mesh.failed"])));
  await vi.waitFor(() => expect(alarms).toHaveLength(1));
  expect(alarms[0]).toMatch(/groups.returned of rollout rollout-7 .* it has \d{4} bytes, and a record .* takes 2500/);
  expect((await journaled()).filter((type) => type === "groups.returned")).toHaveLength(1);
  controller.abort("over");
  expect((await controller.ended).outcome).toBe("aborted");
});

it("a flood of such reports raises a bounded number of alarms, and all of them are counted", async () => {
  for (let i = 0; i < 100; i++) await report(asked(4_000));
  const controller = await begin({ recordBytes: 2_000 });
  const counted = 'muster_controller_inputs_aside_total{kind="groups.returned",reason="too_large"} 100';
  await vi.waitFor(async () => expect(await metrics.render()).toContain(counted), { timeout: 10_000 });
  await vi.waitFor(() => expect(alarms).toHaveLength(32));
  expect(alarms.at(-1)).toContain("later ones are only counted");
  controller.abort("over");
  await controller.ended;
});

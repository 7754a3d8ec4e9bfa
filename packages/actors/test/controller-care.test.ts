/** What a controller owes to those who report to it, also when its broker is slow and when it stood still itself. */
import type { Clock } from "@muster/base";
import { type AnyMessage, createEnveloper, decodeMessage, encodeMessage, subjectsOf } from "@muster/protocol";
import { type ManualClock, manualClock } from "@muster/runtime/internal";
import type { Journal, Transport } from "@muster/transport";
import { createMemoryBroker, type MemoryBroker } from "@muster/transport/internal";
import { afterEach, expect, it, vi } from "vitest";
import { type Controller, startController } from "../src/controller/index.ts";
import { clock, processesOn, type Wire } from "./support/environment.ts";
import { smallConfig } from "./support/small-config.ts";

const dataKey = new Uint8Array(32);
const incarnation = "life-1";

const controllers: Controller[] = [];
afterEach(async () => {
  for (const controller of controllers.splice(0)) controller.abort("the test is over");
});

/** A replica that is nothing but its voice. */
function voiceOn(broker: MemoryBroker, job: string, id = "rollout-0") {
  const transport = broker.connect(`rollout.${id}.${incarnation}`);
  const enveloper = createEnveloper({ job, id, role: "rollout", incarnation, wallMs: Date.now });
  return {
    async register(): Promise<void> {
      const body = { role: "rollout", host: "h", pid: 1, engineBuild: "b" } as const;
      const message = encodeMessage(enveloper.stamp("replica.register", body) as AnyMessage);
      await transport.publish(subjectsOf(job).report("rollout", id, "replica.register"), message, { msgId: `r-${id}` });
    },
    beat(): void {
      const body = { version: null, phase: "work.ready", progress: 0, loopLagMs: 0, rssBytes: 1 };
      transport.send(
        subjectsOf(job).heartbeat("rollout", id),
        encodeMessage(enveloper.stamp("heartbeat.beat", body) as AnyMessage),
      );
    },
  };
}

/** A transport with something else in place of one of its methods. */
function changed(transport: Transport, method: keyof Transport, instead: unknown): Transport {
  return new Proxy(transport, {
    get(target, name) {
      if (name === method) return instead;
      const value = Reflect.get(target, name) as unknown;
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
}

/** A transport whose journal takes one record and then answers no more. */
function stalled(transport: Transport): Transport {
  const journal = transport.journal();
  let appends = 0;
  const slow = {
    ...journal,
    append: (...given: Parameters<Journal["append"]>) =>
      ++appends === 1 ? journal.append(...given) : new Promise<never>(() => {}),
  };
  return changed(transport, "journal", () => slow);
}

it("a report is not acknowledged before it is in the journal: of a controller that ends meanwhile the next one gets it", async () => {
  const config = smallConfig("never-acknowledged");
  // Time-outs of the broker in a fiftieth of their time.
  const hasty: Clock = { now: () => 50 * clock.now(), after: (ms, run) => clock.after(ms / 50, run) };
  const broker = createMemoryBroker({ job: config.job, clock: hasty });
  const newProcess = processesOn(broker);
  const { environment } = newProcess();
  const connect: typeof environment.connect = async (identity) => stalled(await environment.connect(identity));
  const first = await startController({ config, dataKey, environment: { ...environment, connect } });
  await vi.waitFor(() => expect(first.snapshot().context.state.term).toBe(1));
  await voiceOn(broker, config.job).register();
  await vi.waitFor(() => expect(Object.keys(first.snapshot().context.state.members)).toEqual(["rollout-0"]));
  first.abort("it is replaced");
  const second = await startController({ config, dataKey, environment: newProcess().environment });
  controllers.push(second);
  await vi.waitFor(
    () => expect(second.snapshot().context.state).toMatchObject({ term: 2, members: { "rollout-0": { incarnation } } }),
    5_000,
  );
});

/** A controller by a clock of its own, and replicas that are nothing but their voices. */
async function watched(job: string, ids: readonly string[], wire: Wire = (_, transport) => transport) {
  const config = smallConfig(job);
  const time = manualClock();
  const away = { ms: 0 };
  // Standing still: time goes on, and every timer comes late.
  const own: ManualClock = { ...time, now: () => time.now() + away.ms };
  const broker = createMemoryBroker({ job: config.job, clock });
  const events: AnyMessage[] = [];
  await broker
    .connect("watcher.w.w1")
    .tail({ stream: "events", fromSeq: 1, handle: ({ data }) => events.push(decodeMessage(data)) });
  const { environment } = processesOn(broker, wire)();
  const controller = await startController({ config, dataKey, environment: { ...environment, clock: own } });
  controllers.push(controller);
  const voices = ids.map((id) => voiceOn(broker, config.job, id));
  for (const voice of voices) await voice.register();
  await vi.waitFor(() => expect(Object.keys(controller.snapshot().context.state.members)).toEqual(ids));
  const pass = async (ms: number, isHeard: boolean): Promise<void> => {
    for (let at = 0; at < ms; at += 500) {
      if (isHeard) for (const voice of voices) voice.beat();
      await new Promise(setImmediate);
      time.advance(500);
    }
    await new Promise(setImmediate);
  };
  return { timing: config.timing, controller, events, away, pass };
}

it("a controller that stood still accuses nobody of the silence that it did not hear", async () => {
  const { timing, controller, events, away, pass } = await watched("stood-still", ["rollout-0"]);
  await pass(10_000, true);
  away.ms = timing.deadAfterMs * 4;
  await pass(1_000, false);
  expect(controller.snapshot().context.state.members["rollout-0"]).toMatchObject({ incarnation, health: "healthy" });
  // It listens all the same: who stays silent from now on is found.
  await pass(timing.suspectAfterMs * 2, false);
  expect(events.map(({ kind }) => kind)).toContain("member.suspected");
});

it("a controller whose members all fall silent at once says that its view is bad, and evicts nobody for it", async () => {
  const ids = ["rollout-0", "rollout-1", "rollout-2"];
  const { timing, controller, events, pass } = await watched("all-silent", ids);
  await pass(10_000, true);
  const alarms = () => events.flatMap(({ kind, body }) => (kind === "alarm.raised" ? [body] : []));
  for (let ms = 0; ms < timing.suspectAfterMs * 2 && alarms().length === 0; ms += 500) await pass(500, false);
  expect(alarms()).toEqual([
    {
      alarm: "view-suspect",
      detail: expect.stringMatching(/^3 of 3 members fell silent within \d+ ms; no member is evicted/),
    },
  ]);
  expect(Object.keys(controller.snapshot().context.state.members)).toEqual(ids);
});

it("a controller asks again and again how long its broker takes, one question at a time", async () => {
  const answers: (() => void)[] = [];
  const flush = () => new Promise<void>((answer) => answers.push(answer));
  const { pass } = await watched("asks", ["rollout-0"], (_, transport) => changed(transport, "flush", flush));
  await pass(20_000, true);
  expect(answers).toHaveLength(1);
  answers[0]?.();
  await pass(20_000, true);
  expect(answers).toHaveLength(2);
});

it("a controller that is told to go waits three seconds for a broker that takes nothing, and not as long as the end of a job may take", async () => {
  const never = () => new Promise<never>(() => {});
  const wire: Wire = (_, transport) => changed(transport, "publish", never);
  const { timing, controller, pass } = await watched("told-to-go", ["rollout-0"], wire);
  expect(timing.drainMs).toBeGreaterThan(4_000);
  let end: unknown = null;
  void controller.ended.then((how) => {
    end = how;
  });
  controller.abort("maintenance");
  await pass(2_000, true);
  expect(end).toBeNull();
  await pass(2_000, true);
  expect(end).toEqual({ outcome: "aborted", reason: "maintenance" });
});

/** Controllers act and end one after the other while the broker stores none of their events. */
import { type AnyMessage, decodeMessage, type JobConfig, subjectsOf } from "@muster/protocol";
import { waitFor } from "@muster/testkit";
import type { Transport } from "@muster/transport";
import { createMemoryBroker, type MemoryBroker } from "@muster/transport/internal";
import { describe, expect, it, vi } from "vitest";
import { type Controller, startController } from "../src/controller/index.ts";
import { ToldMark } from "../src/controller/told-mark.ts";
import { clock, processesOn } from "./support/environment.ts";
import { smallConfig } from "./support/small-config.ts";

vi.setConfig({ testTimeout: 30_000 });

/** More than a controller says again in any case. */
const controllersMax = 70;

/** The connection of a controller of which no event arrives before `isHeard`. */
function muted(job: string, transport: Transport, isHeard: () => Promise<void>): Transport {
  const events = subjectsOf(job)
    .event("job.started")
    .replace(/job\.started$/, "");
  return new Proxy(transport, {
    get(target, name) {
      const publish: Transport["publish"] = async (subject, ...given) => {
        if (subject.startsWith(events)) await isHeard();
        return await target.publish(subject, ...given);
      };
      const value: unknown = name === "publish" ? publish : Reflect.get(target, name);
      return typeof value === "function" && name !== "publish" ? value.bind(target) : value;
    },
  });
}

/** Starts a controller; `isHeard` says when its events arrive. */
function begin(config: JobConfig, broker: MemoryBroker, isHeard: () => Promise<void>): Promise<Controller> {
  const wire = (_: unknown, transport: Transport): Transport => muted(config.job, transport, isHeard);
  const { environment } = processesOn(broker, wire)();
  const dataKey = new Uint8Array(32);
  return startController({ config, dataKey, environment: { ...environment, newIncarnation: () => `i${++born}` } });
}
let born = 0;

async function hear(broker: MemoryBroker): Promise<readonly AnyMessage[]> {
  const heard: AnyMessage[] = [];
  const watcher = broker.connect("watcher.w.w1");
  await watcher.tail({ stream: "events", fromSeq: 1, handle: ({ data }) => heard.push(decodeMessage(data)) });
  return heard;
}

const never = (): Promise<void> => new Promise(() => {});
const terms = (heard: readonly AnyMessage[]): readonly number[] =>
  heard.flatMap(({ kind, body }) => (kind === "job.started" ? [(body as { term: number }).term] : []));
const upTo = (count: number): readonly number[] => Array.from({ length: count }, (_, i) => i + 1);

describe("what controllers could not say before they ended", () => {
  it("is told by the next one, however many of them there were", async () => {
    const config = smallConfig("retold");
    const broker = createMemoryBroker({ job: config.job, clock });
    const heard = await hear(broker);
    const ended: Controller[] = [];
    const journal = broker.connect("watcher.w.w2").journal();
    for (let i = 1; i <= controllersMax; i++) {
      ended.push(await begin(config, broker, never));
      await waitFor(async () => (await journal.head()) === i, { what: `election ${i}` });
    }
    expect(heard).toEqual([]);
    const last = await begin(config, broker, async () => {});
    await waitFor(() => terms(heard).includes(controllersMax + 1), { what: "the last controller's first word" });
    const told = terms(heard);
    expect(told).toEqual(upTo(controllersMax + 1));
    for (const one of [...ended, last]) one.abort("over");
    await Promise.all([...ended, last].map((one) => one.ended));
  });

  it("is never more than an outbox holds and one record leads to: nobody acts before it has room for it", async () => {
    const config = smallConfig("retold-bound", ["limits.outbox=3"]);
    const broker = createMemoryBroker({ job: config.job, clock });
    const heard = await hear(broker);
    const journal = broker.connect("watcher.w.w2").journal();
    const blocked: Controller[] = [];
    for (let i = 1; i <= 4; i++) {
      blocked.push(await begin(config, broker, never));
      await waitFor(async () => (await journal.head()) === i, { what: `election ${i}` });
    }
    let open = (): void => {};
    const isOpen = new Promise<void>((resolve) => {
      open = resolve;
    });
    let isAsked = false;
    const fifth = begin(config, broker, () => {
      isAsked = true;
      return isOpen;
    });
    await waitFor(() => isAsked, { what: "the fifth controller's first word" });
    expect(await journal.head()).toBe(4);
    open();
    const last = await fifth;
    await waitFor(() => terms(heard).length === 5, { what: "all events" });
    expect(terms(heard)).toEqual(upTo(5));
    for (const one of [...blocked, last]) one.abort("over");
    await Promise.all([...blocked, last].map((one) => one.ended));
  });
});

describe("the mark of what is told", () => {
  it("stands before the first record of which a fact is open", () => {
    const mark = new ToldMark();
    expect(mark.upTo(7)).toBe(7);
    const [first, second, third] = [mark.says(8), mark.says(8), mark.says(10)];
    expect(mark.upTo(10)).toBe(7);
    first();
    expect(mark.upTo(10)).toBe(7);
    second();
    expect(mark.upTo(10)).toBe(9);
    third();
    expect(mark.upTo(11)).toBe(11);
  });
});

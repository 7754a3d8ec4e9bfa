/** How a controller begins: on what the one before left, and with whom it has to do. */
import { type AnyMessage, decodeMessage, subjectsOf } from "@muster/protocol";
import type { Transport } from "@muster/transport";
import { describe, expect, it } from "vitest";
import { decodeRecord } from "../src/controller/index.ts";
import { type Lone, settled, startLone } from "./support/lone-controller.ts";

const leave = async ({ controller, pass }: Lone): Promise<void> => {
  controller.abort("over");
  await pass(3_000);
};

/** No event of this controller is ever stored. */
const mute = (inner: Transport): Partial<Transport> => ({
  publish: async (subject, ...given) => {
    if (subject.includes(".event")) await new Promise<never>(() => {});
    return await inner.publish(subject, ...given);
  },
});

const recordsOf = async ({ broker }: Pick<Lone, "broker">) => {
  const records: ReturnType<typeof decodeRecord>[] = [];
  for await (const { seq, data } of broker.connect("w.w.1").journal().read(1)) records.push(decodeRecord(seq, data));
  return records;
};

describe("a controller that takes over", () => {
  it("says what the one before could not say, under the ids that it would have had, before it begins itself", async () => {
    const first = await startLone({ overrides: mute });
    await first.voice("rollout-0").register();
    expect(first.events).toEqual([]);
    await leave(first);
    // More of it than the way out holds at a time.
    const second = await startLone({ after: first, set: ["limits.outbox=1"] });
    expect(second.events.map(({ kind, id }) => [kind, id])).toEqual([
      ["job.started", "e1.0"],
      ["member.joined", "e2.0"],
      ["job.started", expect.stringMatching(/^e\d+\.0$/)],
    ]);
    await leave(second);
  });

  it("goes on with a job that is to stop, and does not take it for one that has ended", async () => {
    const first = await startLone();
    await first.voice("rollout-0").register();
    await first.voice("op", "operator").say("job.stop", { reason: "enough" });
    expect(first.state()).toMatchObject({ stopped: false, ending: { outcome: "stopped" } });
    await leave(first);
    const second = await startLone({ after: first });
    expect(second.end()).toBeNull();
    await second.pass(60_000);
    expect(second.end()).toEqual({ outcome: "stopped", reason: expect.stringContaining("enough") });
  });

  it("ends at once, in the same way, where the job has ended, and writes nothing", async () => {
    const first = await startLone();
    await first.voice("op", "operator").say("job.stop", { reason: "enough" });
    await first.pass(60_000);
    expect(first.end()).toMatchObject({ outcome: "stopped" });
    const before = await recordsOf(first);
    const second = await startLone({ after: first });
    expect(second.end()).toEqual(first.end());
    expect(await recordsOf(second)).toEqual(before);
  });
});

describe("a controller that begins", () => {
  it("has begun once it hears reports and heartbeats, and not before", async () => {
    const gates: (() => void)[] = [];
    const gate = () => new Promise<void>((resolve) => gates.push(resolve));
    let isBegun = false;
    const starting = startLone({
      overrides: (inner) => ({
        consume: (options) => gate().then(() => inner.consume(options)),
        subscribe: (...given) => gate().then(() => inner.subscribe(...given)),
      }),
    }).finally(() => {
      isBegun = true;
    });
    for (let open = 0; open < 2; open++) {
      await settled();
      expect(isBegun).toBe(false);
      gates[open]?.();
    }
    await leave(await starting);
  });
});

describe("a controller that acts", () => {
  it("dates its records by the wall, as it was at its beginning", async () => {
    const lone = await startLone();
    await lone.pass(5_000);
    await lone.voice("rollout-0").register();
    const records = await recordsOf(lone);
    expect(records[0]).toMatchObject({ wallMs: 1_700_000_000_000, events: [{ type: "controller.elected" }] });
    expect(records.at(-1)).toMatchObject({ wallMs: 1_700_000_005_000, events: [{ type: "replica.register" }] });
    await leave(lone);
  });

  it("admits a replica with the key of the data plane and the configuration, for its life alone", async () => {
    const dataKey = Uint8Array.from({ length: 32 }, (_, i) => i);
    const lone = await startLone({ options: { dataKey } });
    const orders: AnyMessage[] = [];
    await lone.broker
      .connect("w.w.3")
      .subscribe(subjectsOf(lone.config.job).all.commandsOf("rollout-0"), (_, data) =>
        orders.push(decodeMessage(data)),
      );
    await lone.voice("rollout-0").register();
    await settled();
    expect(orders[0]).toMatchObject({ kind: "replica.registered", to: "rollout-0-1", term: 1 });
    const { body } = orders[0] as { readonly body: { dataKey: Uint8Array; config: string } };
    expect(Uint8Array.from(body.dataKey)).toEqual(dataKey);
    expect(JSON.parse(body.config)).toEqual(JSON.parse(JSON.stringify(lone.config)));
    await leave(lone);
  });
});

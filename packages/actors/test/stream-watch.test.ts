/** How full the streams are, as the controller sees it. */
import { noMetrics, silentLogger } from "@muster/base";
import type { Fill } from "@muster/machines/controller";
import { createMetrics } from "@muster/runtime/metrics";
import type { StreamUsage } from "@muster/transport";
import { createMemoryBroker } from "@muster/transport/internal";
import { describe, expect, it } from "vitest";
import { StreamWatch } from "../src/controller/stream-watch.ts";

const publish = (broker: ReturnType<typeof createMemoryBroker>, count: number) =>
  Promise.all(
    Array.from({ length: count }, (_, n) =>
      broker.connect("rollout.r0.a1").publish("muster.job.groups.r0", new Uint8Array(10), { msgId: `m${n}` }),
    ),
  );

function watched() {
  const broker = createMemoryBroker({ bytesMax: { groups: 100 } });
  const passed: number[] = [];
  let known: Fill | undefined;
  const watch = new StreamWatch({
    transport: broker.connect("controller.controller.c1"),
    logger: silentLogger,
    metrics: noMetrics,
    known: () => known,
    passed: (fill) => {
      known = fill;
      passed.push(fill.bytes);
    },
  });
  return { broker, watch, passed };
}

describe("the watch of the streams", () => {
  it("tells the machine when the groups stream passes a mark, up and down, takes more above the last one, and nothing in between", async () => {
    const { broker, watch, passed } = watched();
    for (const count of [7, 8, 8, 9, 9, 10]) {
      await publish(broker, count);
      await watch.look();
    }
    await watch.purgeGroups(9);
    await expect.poll(() => passed).toEqual([80, 90, 100, 20]);
    expect(watch.seen().groups).toEqual({ bytes: 20, bytesMax: 100, lastSeq: 10 });
    expect(Object.keys(watch.seen()).sort()).toEqual(["commands", "events", "groups", "journal", "reports"]);
  });

  it("does not look while the broker is away", async () => {
    const { broker, watch } = watched();
    broker.disconnect("controller.controller.c1");
    await watch.look();
    expect(watch.seen()).toEqual({});
  });

  it("looks again when a look has ended, however it ended, and not before", async () => {
    const answers: ((error?: Error) => void)[] = [];
    const usage = () =>
      new Promise<StreamUsage>((resolve, reject) => {
        answers.push((error) => (error ? reject(error) : resolve({ bytes: 1, bytesMax: null, lastSeq: 1 })));
      });
    const transport = { usage, purge: async () => {}, isConnected: () => true };
    const watch = new StreamWatch({
      ...{ transport, logger: silentLogger, metrics: noMetrics },
      known: () => undefined,
      passed: () => {},
    });
    const first = watch.look();
    await watch.look();
    expect(answers).toHaveLength(1);
    answers[0]?.(new Error("no answer"));
    await first;
    void watch.look();
    expect(answers).toHaveLength(2);
  });

  it("shows on the page what each stream holds and may hold, 0 where nothing bounds it", async () => {
    const metrics = createMetrics();
    const usage = async (name: string) => ({ bytes: 30, bytesMax: name === "groups" ? 100 : null, lastSeq: 1 });
    const watch = new StreamWatch({
      ...{ transport: { usage, purge: async () => {}, isConnected: () => true }, logger: silentLogger, metrics },
      known: () => undefined,
      passed: () => {},
    });
    await watch.look();
    const page = await metrics.render();
    expect(page).toMatch(/^muster_stream_bytes\{stream="groups"\} 30$/m);
    expect(page).toMatch(/^muster_stream_bytes_max\{stream="groups"\} 100$/m);
    expect(page).toMatch(/^muster_stream_bytes_max\{stream="journal"\} 0$/m);
  });
});

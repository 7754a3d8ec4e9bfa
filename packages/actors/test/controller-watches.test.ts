/** What a controller makes of silence: its members', its broker's and its own. */
import { decodeMessage, subjectsOf } from "@muster/protocol";
import { createMetrics } from "@muster/runtime/metrics";
import { describe, expect, it } from "vitest";
import { type Lone, type LoneOptions, settled, startLone } from "./support/lone-controller.ts";

/** A controller with a member that was heard for ten seconds. */
async function watched(given: LoneOptions & { readonly ids?: readonly string[] } = {}) {
  const { ids = ["rollout-0"], ...rest } = given;
  const lone = await startLone(rest);
  const voices = ids.map((id) => lone.voice(id));
  for (const voice of voices) await voice.register();
  const hear = async (ms: number): Promise<void> => {
    for (let at = 0; at < ms; at += 500) {
      for (const voice of voices) voice.beat();
      await lone.pass(500);
    }
  };
  await hear(10_000);
  return { ...lone, voices, hear };
}

const isSuspected = ({ bodiesOf }: Pick<Lone, "bodiesOf">): boolean => bodiesOf("member.suspected").length > 0;

/** How long it takes from now on until a member is suspected, in milliseconds. */
async function untilSuspected(lone: Lone): Promise<number> {
  let ms = 0;
  for (; !isSuspected(lone) && ms < 600_000; ms += 500) await lone.pass(500);
  return ms;
}

describe("a member that falls silent", () => {
  it("is asked whether it lives, in its present life", async () => {
    const lone = await watched();
    const asked: unknown[] = [];
    const { probe } = subjectsOf(lone.config.job);
    await lone.broker.connect("w.w.1").subscribe(probe("rollout-0"), (_, data) => asked.push(decodeMessage(data)));
    await untilSuspected(lone);
    await lone.pass(1_000);
    expect(asked[0]).toMatchObject({ kind: "replica.probe", to: "rollout-0-1", body: { nonce: 1 } });
    lone.controller.abort("over");
    await settled();
  });

  it("is accused of nothing while the broker is away, and of what follows", async () => {
    let isAway = false;
    const lone = await watched({ overrides: (inner) => ({ isConnected: () => !isAway && inner.isConnected() }) });
    isAway = true;
    await lone.pass(120_000);
    expect(isSuspected(lone)).toBe(false);
    isAway = false;
    await lone.pass(1_000);
    expect(isSuspected(lone)).toBe(true);
    lone.controller.abort("over");
    await settled();
  });
});

describe("a controller that stood still", () => {
  /** It stands still for so long, and then nobody beats. */
  async function stoodStill(forMs: number) {
    let awayMs = 0;
    const metrics = createMetrics();
    const lone = await watched({ environment: { metrics }, awayMs: () => awayMs });
    awayMs = forMs;
    await lone.pass(1_100);
    const page = await metrics.render();
    const health = Number(/^muster_detector_local_health (.+)$/m.exec(page)?.[1]);
    const suspectedMs = await untilSuspected(lone);
    lone.controller.abort("over");
    await settled();
    return { health, suspectedMs };
  }

  it("counts that time for nobody's silence when it is more than half of what makes one suspect", async () => {
    expect((await stoodStill(14_500)).suspectedMs).toBe(0);
    expect((await stoodStill(15_500)).suspectedMs).toBeGreaterThan(3_000);
  });

  it("knows that it is not well, and that it is well again", async () => {
    expect((await stoodStill(1_000)).health).toBe(1);
    expect((await stoodStill(0)).health).toBe(0);
  });
});

describe("a connection of the controller to the broker that ends again and again", () => {
  it("is told to the operator once", async () => {
    const lone = await watched();
    for (let time = 0; time < 4; time++) {
      lone.broker.disconnect(lone.connection);
      await lone.pass(1_000);
      lone.broker.reconnect(lone.connection);
      await lone.hear(2_000);
    }
    const alarms = lone.bodiesOf("alarm.raised");
    expect(alarms.map(({ alarm }) => alarm)).toEqual(["connection"]);
    expect(alarms[0]?.detail).toMatch(/^the controller's connection to the broker ended \d times/);
    lone.controller.abort("over");
    await settled();
  });
});

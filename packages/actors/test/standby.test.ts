import { getEventListeners } from "node:events";
import { silentLogger } from "@muster/base";
import { pack, statusKey } from "@muster/protocol";
import { manualClock } from "@muster/runtime/internal";
import type { Transport } from "@muster/transport";
import { createMemoryBroker } from "@muster/transport/internal";
import { describe, expect, it } from "vitest";
import { writeAlive } from "../src/controller/alive.ts";
import { type StandbyEnd, standBy } from "../src/controller/index.ts";

/** Lets what was started come as far as it can without time passing. */
const settle = async (): Promise<void> => {
  for (let i = 0; i < 20; i++) await Promise.resolve();
};

async function waiting(): Promise<{
  readonly transport: Transport;
  readonly ended: () => StandbyEnd | null;
  readonly pass: (ms: number) => Promise<void>;
  readonly abort: () => void;
  /** Time until it looks again, `null` when it does not, and how many wait for it to be told to go. */
  readonly waits: () => { readonly nextMs: number | null; readonly listeners: number };
  /** The broker answers no more, or again. */
  readonly away: (isAway: boolean) => void;
}> {
  const transport = createMemoryBroker().connect("controller.controller.i2");
  let isAway = false;
  const silent = { get: () => Promise.reject(new Error("no answer")) };
  const seen = new Proxy(transport, {
    get: (target, name) => (name === "state" ? () => (isAway ? silent : target.state()) : Reflect.get(target, name)),
  });
  const clock = manualClock();
  const stop = new AbortController();
  let end: StandbyEnd | null = null;
  void standBy({ transport: seen, clock, logger: silentLogger, silentMs: 5_000, signal: stop.signal }).then((how) => {
    end = how;
  });
  return {
    transport,
    ended: () => end,
    async pass(ms) {
      for (let at = 0; at < ms; at += 500) {
        await settle();
        clock.advance(500);
      }
      await settle();
    },
    abort: () => stop.abort(),
    waits: () => ({ nextMs: clock.untilNextMs(), listeners: getEventListeners(stop.signal, "abort").length }),
    away: (is) => {
      isAway = is;
    },
  };
}

const draw = (transport: Transport, phase: string) => transport.state().put(statusKey, pack({ phase }));

const live = (transport: Transport, beat: number, isOver = false) =>
  writeAlive(transport.state(), { term: 1, incarnation: "i1", beat, isOver });

describe("a standby controller", () => {
  it("waits while the sign of life changes, though no status can be written", async () => {
    const { transport, ended, pass } = await waiting();
    await draw(transport, "sampling");
    for (let beat = 1; beat <= 20; beat++) {
      await live(transport, beat);
      await pass(1_000);
    }
    expect(ended()).toBeNull();
    await pass(6_000);
    expect(ended()).toBe("vacant");
  });

  it("goes when the last sign says that the job is over", async () => {
    const { transport, ended, pass } = await waiting();
    await live(transport, 1, true);
    await pass(1_000);
    expect(ended()).toBe("over");
  });

  it("waits while the status of a controller without a sign changes, and takes over when it does not any more", async () => {
    const { transport, ended, pass } = await waiting();
    for (let second = 0; second < 20; second++) {
      await draw(transport, "sampling");
      await pass(1_000);
    }
    expect(ended()).toBeNull();
    await pass(4_000);
    expect(ended()).toBeNull();
    await pass(2_000);
    expect(ended()).toBe("vacant");
  });

  it("gives the first one time to begin", async () => {
    const { ended, pass } = await waiting();
    await pass(4_500);
    expect(ended()).toBeNull();
    await pass(1_500);
    expect(ended()).toBe("vacant");
  });

  it("takes no outage of the broker for silence: the time counts from when it can see again", async () => {
    const { transport, ended, pass, away } = await waiting();
    await draw(transport, "sampling");
    await pass(1_000);
    away(true);
    await pass(30_000);
    away(false);
    await pass(4_000);
    expect(ended()).toBeNull();
    await pass(2_000);
    expect(ended()).toBe("vacant");
  });

  it("goes when the job is over, and when it is told to", async () => {
    const over = await waiting();
    await draw(over.transport, "stopped");
    await over.pass(1_000);
    expect(over.ended()).toBe("over");
    const told = await waiting();
    told.abort();
    await told.pass(500);
    expect(told.ended()).toBe("aborted");
  });

  it("looks twice a second: it takes over half a second after the silence at the latest", async () => {
    const { transport, ended, pass } = await waiting();
    await pass(1_000);
    await live(transport, 1);
    await pass(5_000);
    expect(ended()).toBeNull();
    await pass(500);
    expect(ended()).toBe("vacant");
  });

  it("sees the first sign of all, after it saw that there is none", async () => {
    const { transport, ended, pass } = await waiting();
    await pass(4_000);
    await live(transport, 1);
    await pass(4_000);
    expect(ended()).toBeNull();
    await pass(1_500);
    expect(ended()).toBe("vacant");
  });

  it("goes in the moment in which it is told to, and leaves nothing that waits", async () => {
    const { ended, abort, pass, waits } = await waiting();
    await pass(3_000);
    expect(waits()).toEqual({ nextMs: 500, listeners: 1 });
    abort();
    await settle();
    expect(ended()).toBe("aborted");
    expect(waits()).toEqual({ nextMs: null, listeners: 0 });
  });
});

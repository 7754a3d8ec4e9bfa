import { defineErrors, hasCode } from "@muster/base";
import { beforeEach, describe, expect, test } from "vitest";
import {
  type ActorHost,
  type ActorHostOptions,
  createActorHost,
  type EffectHandlers,
  type HostEnd,
  type PersistBatch,
} from "../src/index.ts";
import { type ManualClock, manualClock } from "../src/internal.ts";
import { countingMetrics, recordingLogger, turns } from "./helpers.ts";
import { add, type Effect, type Event, fetchLater, logic, type Snapshot, say, start } from "./support/counter.ts";

const errors = defineErrors("TEST_ERR", { Away: { message: "the store is away" } });

describe("the actor host", () => {
  let clock: ManualClock;
  let log: string[];
  let recorded: ReturnType<typeof recordingLogger>;
  let counted: ReturnType<typeof countingMetrics>;
  let ends: HostEnd<Event>[];
  beforeEach(() => {
    clock = manualClock();
    log = [];
    recorded = recordingLogger();
    counted = countingMetrics();
    ends = [];
  });

  const speakAndFetch: EffectHandlers<Effect, Event> = {
    speak: ({ text }) => void log.push(`speak ${text}`),
    fetch: fetchLater,
  };
  const host = (options: Partial<ActorHostOptions<Snapshot, Event, Effect>> = {}): ActorHost<Snapshot, Event> =>
    createActorHost<Snapshot, Event, Effect>({
      logic,
      initial: logic.init(null),
      handlers: speakAndFetch,
      clock,
      logger: recorded.logger,
      metrics: counted.metrics,
      mailboxMax: 8,
      onStopped: (end) => ends.push(end),
      ...options,
    });

  test("steps what is posted and settles it", async () => {
    const actor = host();
    let settled = 0;
    for (const n of [1, 2, 3]) expect(actor.post(add(n), { settle: () => settled++ })).toBe(true);
    await actor.idle();
    expect(actor.snapshot().sum).toBe(6);
    expect(settled).toBe(3);
  });

  test("persists a batch once, before its effects, and settles it after them", async () => {
    const actor = host({
      persist: async ({ events }) => {
        await turns(3);
        log.push(`persist ${events.map(({ type }) => type).join(" ")}`);
      },
    });
    actor.post(say("a"), { settle: () => log.push("settle a") });
    actor.post(say("b"), { settle: () => log.push("settle b") });
    await actor.idle();
    expect(log).toEqual(["persist say say", "speak a", "speak b", "settle a", "settle b"]);
  });

  test("persists only events that did something, and says whether the snapshot changed", async () => {
    const batches: PersistBatch<Snapshot, Event>[] = [];
    const actor = host({ persist: async (batch) => void batches.push(batch) });
    actor.post({ type: "ignored" });
    await actor.idle();
    expect(batches).toEqual([]);
    actor.post({ type: "ignored" });
    actor.post(say("x"));
    await actor.idle();
    expect(batches).toEqual([
      { events: [say("x")], effects: [{ type: "speak", text: "x" }], snapshot: start, changed: false },
    ]);
    actor.post(add(4));
    await actor.idle();
    expect(batches[1]).toEqual({ events: [add(4)], effects: [], snapshot: { ...start, sum: 4 }, changed: true });
  });

  test("reaches the same snapshot when the persisted events are stepped again", async () => {
    const kept: Event[] = [];
    const actor = host({ persist: async ({ events }) => void kept.push(...events), batchMax: 2, mailboxMax: 100 });
    for (let n = 0; n < 20; n++)
      actor.post(n % 3 === 0 ? { type: "ignored" } : n % 5 === 0 ? { type: "load", key: `${n}` } : add(n));
    await actor.idle();
    const replayed = kept.reduce((snapshot, event) => logic.step(snapshot, event).snapshot, start);
    expect(replayed).toEqual(actor.snapshot());
  });

  test("takes no more than its batch in one turn, control first", async () => {
    const sizes: number[] = [];
    const actor = host({ batchMax: 2, persist: async ({ events }) => void sizes.push(events.length) });
    for (const text of ["d1", "d2", "d3"]) actor.post(say(text));
    actor.post(say("c1"), { lane: "control" });
    actor.post(say("c2"), { lane: "control" });
    await actor.idle();
    expect(sizes).toEqual([2, 2, 1]);
    expect(log).toEqual(["speak c1", "speak c2", "speak d1", "speak d2", "speak d3"]);
  });

  test("persists no more at once than weighs so much, and lets nothing leave before its own part is persisted", async () => {
    const actor = host({
      persist: async ({ events }) => void log.push(`persist ${events.length}`),
      weight: { of: (event) => (event.type === "say" ? event.text.length : 0), max: 5 },
    });
    for (const text of ["abc", "de", "f", "ghijklm", "n"]) actor.post(say(text), { settle: () => log.push("settle") });
    await actor.idle();
    expect(log.join(", ")).toBe(
      "persist 2, speak abc, speak de, settle, settle, persist 1, speak f, settle, persist 1, speak ghijklm, settle, persist 1, speak n, settle",
    );
  });

  test("leaves an event out over which the machine throws when whoever posted it says so, and settles it with the rest", async () => {
    const kept: Event[] = [];
    const seen: string[] = [];
    const actor = host({ persist: async ({ events }) => void kept.push(...events) });
    actor.post(add(1));
    actor.post(
      { type: "explode" },
      {
        settle: () => log.push("settled"),
        spare: (error) => {
          seen.push(String(error));
          return true;
        },
      },
    );
    actor.post(add(2));
    await actor.idle();
    expect([kept, seen, log]).toEqual([[add(1), add(2)], ["Error: no such transition"], ["settled"]]);
    expect(actor.snapshot().sum).toBe(3);
    actor.post({ type: "explode" }, { settle: () => log.push("settled"), spare: () => false });
    await expect(actor.idle()).rejects.toThrow("no such transition");
    expect(log).toEqual(["settled"]);
  });

  test("refuses and counts what does not fit, and never settles it", async () => {
    const actor = host({ mailboxMax: 2 });
    const posted = [1, 2, 3].map((n) => actor.post(add(n), { settle: () => log.push(`settle ${n}`) }));
    await actor.idle();
    expect(posted).toEqual([true, true, false]);
    expect(log).toEqual(["settle 1", "settle 2"]);
    expect(counted.total("muster_mailbox_refused_total", { reason: "mailbox_full" })).toBe(1);
  });

  test("brings outcomes of handlers back as events while later events go on", async () => {
    const actor = host();
    actor.post({ type: "load", key: "k" });
    actor.post(add(5));
    await actor.idle();
    expect(actor.snapshot()).toMatchObject({ sum: 5, seen: ["k"] });
  });

  test("executes the first effects before any event", async () => {
    const actor = host({ initial: { snapshot: start, effects: [{ type: "speak", text: "hello" }] } });
    actor.post(say("later"));
    await actor.idle();
    expect(log).toEqual(["speak hello", "speak later"]);
  });

  test("logs a change of state once, with the event that caused it", async () => {
    const actor = host();
    actor.post(add(1));
    actor.post({ type: "load", key: "k" });
    await actor.idle();
    const changes = recorded.lines.filter(({ message }) => message === "state changed");
    expect(changes.map(({ fields }) => fields)).toEqual([
      { from: "counting", to: "loading", kind: "load" },
      { from: "loading", to: "counting", kind: "loaded" },
    ]);
  });

  test("fires timers, replaces those that run, forgets those that are cancelled", async () => {
    const actor = host();
    actor.post({ type: "arm", id: "a", delayMs: 100 });
    actor.post({ type: "arm", id: "b", delayMs: 50 });
    actor.post({ type: "arm", id: "c", delayMs: 60 });
    await actor.idle();
    actor.post({ type: "arm", id: "a", delayMs: 10 });
    actor.post({ type: "disarm", id: "b" });
    actor.post({ type: "disarm", id: "never started" });
    await actor.idle();
    clock.advance(1000);
    await actor.idle();
    expect(actor.snapshot().seen).toEqual(["rang a", "rang c"]);
  });

  test("shows pending timers so that another life starts them with what is left", async () => {
    const actor = host();
    actor.post({ type: "arm", id: "a", delayMs: 100 });
    await actor.idle();
    clock.advance(30);
    const pending = actor.pendingTimers();
    expect(pending).toEqual([{ id: "a", atMs: 100, remainingMs: 70, event: { type: "rang", id: "a" } }]);
    await actor.stop();

    const effects = pending.map(
      ({ id, remainingMs, event }): Effect => ({ type: "timer.start", id, delayMs: remainingMs, event }),
    );
    const next = host({ initial: { snapshot: actor.snapshot(), effects } });
    await next.idle();
    clock.advance(69);
    await next.idle();
    expect(next.snapshot().seen).toEqual([]);
    clock.advance(1);
    await next.idle();
    expect(next.snapshot().seen).toEqual(["rang a"]);
  });

  test("fails with the cause and the last events when a handler throws", async () => {
    const cause = new Error("forgot to catch");
    const actor = host({
      handlers: {
        ...speakAndFetch,
        speak: () => {
          throw cause;
        },
      },
    });
    for (let n = 0; n < 3; n++) actor.post(add(n));
    actor.post(say("x"), { settle: () => log.push("settled") });
    await expect(actor.idle()).rejects.toThrow('handler of effect "speak" failed: forgot to catch');
    expect(ends).toMatchObject([{ reason: "failed", recentEvents: [add(0), add(1), add(2), say("x")] }]);
    expect(hasCode(ends[0]?.error, "MUSTER_ERR_HANDLER_FAILED")).toBe(true);
    expect(ends[0]?.error).toHaveProperty("cause", cause);
    expect(log).toEqual([]);
  });

  test("fails when a handler rejects later, and keeps 64 events", async () => {
    const reject = async (): Promise<void> => {
      await turns(1);
      throw new Error("late");
    };
    const actor = host({ handlers: { ...speakAndFetch, speak: reject }, mailboxMax: 200 });
    for (let n = 0; n < 99; n++) actor.post(add(n));
    actor.post(say("x"));
    await expect(actor.idle()).rejects.toThrow("late");
    expect(ends[0]?.recentEvents).toHaveLength(64);
    expect(ends[0]?.recentEvents.at(-1)).toEqual(say("x"));
  });

  test("fails when the machine throws, before anything is persisted or settled", async () => {
    let persisted = 0;
    const actor = host({ persist: async () => void persisted++ });
    actor.post(add(1), { settle: () => log.push("settled") });
    actor.post({ type: "explode" });
    await expect(actor.idle()).rejects.toThrow('machine counter failed on event "explode": no such transition');
    expect([persisted, log, ends.length]).toEqual([0, [], 1]);
  });

  test("ends with the error of a persist that failed, without effects and settlements", async () => {
    const actor = host({ persist: () => Promise.reject(errors.Away()) });
    actor.post(say("x"), { settle: () => log.push("settled") });
    await expect(actor.idle()).rejects.toThrow("the store is away");
    expect(log).toEqual([]);
    expect(hasCode(ends[0]?.error, "TEST_ERR_AWAY")).toBe(true);
    expect(actor.post(add(1))).toBe(false);
    expect(counted.total("muster_mailbox_refused_total", { reason: "stopped" })).toBe(1);
  });

  test("fails when its own results outgrow twice the mailbox", async () => {
    const flood: EffectHandlers<Effect, Event>["speak"] = (_, { post }) => {
      for (let n = 0; n < 100; n++) post(add(n));
    };
    const actor = host({ handlers: { ...speakAndFetch, speak: flood }, mailboxMax: 8 });
    actor.post(say("x"));
    await expect(actor.idle()).rejects.toThrow(/16 of 8/);
  });

  test("aborts its handlers and waits for them when it is stopped", async () => {
    const patient: EffectHandlers<Effect, Event>["fetch"] = (_, { signal, post }) =>
      new Promise((resolve) => {
        signal.addEventListener("abort", () => {
          log.push(`aborted, posting gives ${post(add(1))}`);
          resolve();
        });
      });
    const actor = host({ handlers: { ...speakAndFetch, fetch: patient } });
    actor.post({ type: "load", key: "k" });
    await turns(2);
    actor.post({ type: "arm", id: "t", delayMs: 1 });
    const end = await actor.stop();
    expect(end.reason).toBe("stopped");
    expect(log).toEqual(["aborted, posting gives false"]);
    expect(clock.untilNextMs()).toBeNull();
    expect(await actor.stop()).toBe(end);
    expect(ends).toHaveLength(1);
  });

  test("executes and settles nothing of a batch during whose persisting it was stopped", async () => {
    const actor = host({ persist: () => turns(3) });
    actor.post(say("x"), { settle: () => log.push("settled") });
    await turns(2);
    await actor.stop();
    expect(log).toEqual([]);
  });

  test("takes its turns when the owner's schedule says so", async () => {
    const due: (() => void)[] = [];
    const actor = host({ schedule: (turn) => due.push(turn) });
    due.shift()?.();
    await turns(1);
    actor.post(add(1));
    await turns(3);
    expect([actor.snapshot().sum, due.length]).toEqual([0, 1]);
    due.shift()?.();
    expect(actor.snapshot().sum).toBe(1);
  });

  test("stops without a handler that does not end in time, and says so", async () => {
    const actor = host({ handlers: { ...speakAndFetch, fetch: () => new Promise(() => {}) }, stopMs: 100 });
    actor.post({ type: "load", key: "k" });
    await turns(2);
    const stopped = actor.stop();
    clock.advance(100);
    expect((await stopped).reason).toBe("stopped");
    expect(recorded.lines.at(-1)).toMatchObject({ level: "warn", fields: { handlers: 1, waitMs: 100 } });
  });

  test("ends by itself when the machine does, after its last effects", async () => {
    const actor = host();
    actor.post({ type: "finish" }, { settle: () => log.push("settled") });
    await actor.idle();
    await turns(2);
    expect(log).toEqual(["speak bye", "settled"]);
    expect(ends).toMatchObject([{ reason: "done" }]);
  });

  test("counts events and effects by type", async () => {
    const actor = host();
    actor.post(add(1));
    actor.post(add(2));
    actor.post(say("x"));
    await actor.idle();
    expect(counted.total("muster_host_events_total", { kind: "add" })).toBe(2);
    expect(counted.total("muster_host_effects_total", { effect: "speak" })).toBe(1);
  });
});

/** Events that nobody waits for yet: when they are persisted, and what may pass them. */
import { describe, expect, test } from "vitest";
import { type ActorHost, createActorHost, type Patience } from "../src/index.ts";
import { type ManualClock, manualClock } from "../src/internal.ts";
import { countingMetrics, recordingLogger, turns } from "./helpers.ts";
import { add, type Effect, type Event, fetchLater, logic, type Snapshot, say } from "./support/counter.ts";

describe("the actor host with events that may wait", () => {
  /** While it counts, additions may wait, up to three of them; everything else is waited for. */
  const patience = {
    forMs: 50,
    mayWait: ({ value }: Snapshot, events: readonly Event[]) =>
      value === "counting" && events.length < 3 && events.every(({ type }) => type === "add"),
  };
  let clock: ManualClock;
  let persisted: string[];
  let settled: number;
  const patient = (
    more: Pick<Patience<Snapshot, Event>, "mayPass"> = {},
    stored = async (): Promise<void> => {},
  ): ActorHost<Snapshot, Event> => {
    clock = manualClock();
    persisted = [];
    settled = 0;
    return createActorHost<Snapshot, Event, Effect>({
      logic,
      initial: logic.init(null),
      handlers: { speak: () => {}, fetch: fetchLater },
      clock,
      logger: recordingLogger().logger,
      metrics: countingMetrics().metrics,
      mailboxMax: 8,
      patience: { ...patience, ...more },
      persist: async ({ events }) => {
        persisted.push(events.map(({ type }) => type).join(" "));
        await stored();
      },
    });
  };
  const post = async (actor: ActorHost<Snapshot, Event>, event: Event, lane?: "control"): Promise<void> => {
    actor.post(event, { settle: () => settled++, ...(lane ? { lane } : {}) });
    await turns(3);
  };

  test("persists them with the first that may not, in their order", async () => {
    const actor = patient();
    await post(actor, add(1));
    await post(actor, add(2));
    expect([persisted, settled, actor.snapshot().sum]).toEqual([[], 0, 0]);
    await post(actor, say("now"));
    expect([persisted, settled, actor.snapshot().sum]).toEqual([["add add say"], 3, 3]);
    await post(actor, add(3));
    expect(persisted).toHaveLength(1);
  });

  test("persists them when together they may wait no longer", async () => {
    const actor = patient();
    for (const n of [1, 2, 3]) await post(actor, add(n));
    expect(persisted).toEqual(["add add add"]);
  });

  test("lets the control lane pass, and persists them when somebody waits for them after that", async () => {
    const actor = patient();
    await post(actor, add(1));
    await post(actor, add(2), "control");
    expect([persisted, settled, actor.snapshot().sum]).toEqual([["add"], 1, 2]);
    await post(actor, { type: "load", key: "k" }, "control");
    await turns(6);
    expect(persisted.slice(0, 3)).toEqual(["add", "load", "add"]);
  });

  test("lets nothing pass that must come after them", async () => {
    const actor = patient({ mayPass: (_, { type }) => type !== "say" });
    await post(actor, add(1));
    await post(actor, add(2), "control");
    await post(actor, say("over"), "control");
    await turns(3);
    expect([persisted, settled, actor.snapshot().sum]).toEqual([["add", "add", "say"], 3, 3]);
  });

  test("lets nothing pass that must come after them when somebody waits for them in the same turn", async () => {
    const actor = patient({ mayPass: (_, { type }) => type !== "say" });
    await post(actor, add(1));
    actor.post(say("over"), { lane: "control" });
    await post(actor, { type: "load", key: "k" });
    await turns(3);
    expect(persisted.slice(0, 2)).toEqual(["add load", "say"]);
  });

  test("sees what came while the control lane was persisted and nothing changed", async () => {
    let release = (): void => {};
    const gate = new Promise<void>((resolve) => {
      release = resolve;
    });
    const actor = patient({}, () => gate);
    await post(actor, add(1));
    await post(actor, say("slow"), "control");
    await post(actor, say("now"));
    release();
    await turns(6);
    expect(persisted).toEqual(["say", "add say"]);
  });

  test("persists them at the deadline of the first, and begins a new one with the next", async () => {
    const actor = patient();
    await post(actor, add(1));
    clock.advance(49);
    await post(actor, add(2));
    expect(persisted).toEqual([]);
    clock.advance(1);
    await actor.idle();
    expect(persisted).toEqual(["add add"]);
    await post(actor, add(3));
    clock.advance(49);
    await turns(3);
    expect(persisted).toHaveLength(1);
    clock.advance(1);
    await actor.idle();
    expect([persisted, settled]).toEqual([["add add", "add"], 3]);
  });

  test("settles none that waits when it is stopped: they come again", async () => {
    const actor = patient();
    await post(actor, add(1));
    await actor.stop();
    clock.advance(100);
    await turns(3);
    expect([persisted, settled]).toEqual([[], 0]);
  });
});

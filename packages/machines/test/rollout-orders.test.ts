/** What a rollout replica makes of its leases, its weights and its time: how much, when, and of which lease. */
import type { WorkItem } from "@muster/protocol";
import { describe, expect, it } from "vitest";
import { keptMsMax } from "../src/rollout/kept-receipts.ts";
import { rolloutInputOf } from "../src/rollout/rollout-events.ts";
import { rolloutLogic } from "../src/rollout/rollout-machine.ts";
import { plan } from "./plans.ts";
import { type Effect, Replica } from "./replica.ts";

const item = (index: number): WorkItem => ({ purpose: "train", step: 1, index, attempt: 0 });
const lease = (leaseId: string, count = 3) => ({
  type: "groups.lease",
  body: { leaseId, lineage: 0, version: 1, items: Array.from({ length: count }, (_, index) => item(index)) },
});
const generated = (chunkId: string, messages = 1) => ({ type: "groups.generated", chunkId, messages });
const stored = (chunkId: string) => ({
  ...{ type: "groups.stored", chunkId, leaseId: chunkId.split("/")[0], receipts: [], causes: [], durationMs: 1 },
});
const told = (id: string) => ({ type: "report.told", id });
const due = (leaseId: string) => ({ type: "lease.due", leaseId });
const pull = (lineage: number, version: number) => ({
  type: "weights.pull",
  body: { lineage, version, sections: [], holders: [] },
});
const pulled = (lineage: number, version: number) => ({
  ...{ type: "weights.pulled", lineage, version, sections: [], addresses: [], bytes: 1, durationMs: 1 },
});
const failedPull = (lineage: number, version: number) => ({ type: "weights.errored", lineage, version, cause: "no" });

function after(...events: readonly object[]): Replica {
  const replica = new Replica(rolloutLogic, { timing: plan.timing, chunkGroups: 1, leasesMax: 2 });
  for (const event of events) replica.hear(event);
  return replica;
}
const does = (effects: readonly Effect[]): string[] =>
  effects.map(({ kind, type }) => (type === "drop" ? "drop" : (kind ?? type)));
const contextOf = (replica: Replica) => (replica.snapshot as { context: Record<string, unknown> }).context;
type Timer = Effect & { readonly id?: string; readonly delayMs?: number };

/** Timers that an event starts or cancels. */
function timersOf(replica: Replica, event: object): string[] {
  const before = replica.effects.length;
  replica.hear(event);
  const timers = replica.effects.slice(before) as readonly Timer[];
  return timers.flatMap(({ type, id, delayMs }) =>
    type.startsWith("timer.") ? [`${type.slice(6)} ${id}${delayMs === undefined ? "" : ` ${delayMs}`}`] : [],
  );
}

describe("a lease", () => {
  it("is taken while fewer leases than its holder may have wait, and handed back as too many from there on", () => {
    const replica = after(lease("1-1"), lease("1-2"));
    expect(replica.hear(lease("1-3"))).toMatchObject([
      { kind: "groups.returned", told: "1-3", body: { leaseId: "1-3", reason: "too many leases" } },
    ]);
    expect(contextOf(replica).untold).toMatchObject({ "1-3": 1 });
    replica.hear(told("1-3"));
    expect(contextOf(replica).untold).not.toHaveProperty("1-3");
    // One of which a single chunk is being generated waits no more.
    const begun = after(lease("1-1", 1), lease("1-2", 1));
    expect(does(begun.hear(lease("1-3")))).toEqual([]);
    expect(does(begun.hear(lease("1-4")))).toEqual(["groups.returned"]);
  });

  it("may be one more than the job gives at a time: the next one comes before the last one is whole", () => {
    expect(rolloutInputOf({ timing: plan.timing, limits: plan.limits } as never)).toMatchObject({ leasesMax: 3 });
  });

  it("is known for as long as sixty-four others", () => {
    const replica = after();
    const give = (n: number) => {
      const effects = does(replica.hear(lease(`1-${n}`, 1)));
      replica.hear(generated(`1-${n}/0`));
      replica.hear(told(`1-${n}/0`));
      return effects;
    };
    for (let n = 0; n < 64; n++) expect(give(n)).toEqual(["groups.generate"]);
    expect(does(replica.hear(lease("1-0", 1)))).toEqual(["drop"]);
    expect(give(64)).toEqual(["groups.generate"]);
    expect(does(replica.hear(lease("1-1", 1)))).toEqual(["drop"]);
    expect(does(replica.hear(lease("1-0", 1)))).toEqual(["groups.generate"]);
  });

  it("is looked at after four fifths of its time, and not any more when its last chunk is computed", () => {
    const replica = after();
    expect(timersOf(replica, lease("1-1", 2))).toContain(`start due 1-1 ${plan.timing.leaseMs * 0.8}`);
    expect(timersOf(replica, generated("1-1/0"))).not.toContain("cancel due 1-1");
    expect(timersOf(replica, generated("1-1/1"))).toContain("cancel due 1-1");
  });

  it("that waits behind another keeps that one's time running no longer than its own chunks", () => {
    const replica = after(lease("1-1", 1), lease("1-2", 1));
    const timers = timersOf(replica, generated("1-1/0"));
    expect(timers).toContain("cancel due 1-1");
    expect(timers).not.toContain("cancel due 1-2");
  });

  it("whose time is nearly over takes nothing of others with it", () => {
    const replica = after(lease("1-1", 2), lease("1-2", 2));
    expect(does(replica.hear(due("1-2")))).toEqual(["groups.returned", "groups.returned"]);
    expect(contextOf(replica)).toMatchObject({ overdue: null, queue: [{ leaseId: "1-1" }] });
    expect(does(replica.hear(due("1-1")))).toEqual(["groups.returned", "groups.handBack"]);
    expect(contextOf(replica)).toMatchObject({ overdue: "1-1", queue: [] });
  });

  it("whose time was nearly over says nothing against the work of the next one", () => {
    const replica = after(lease("1-1", 1), lease("1-2", 1), due("1-1"), generated("1-1/0"), told("1-1/0"));
    const chunk = { id: "1-2/0", leaseId: "1-2", lineage: 0, version: 1, items: [item(0)] };
    const [returned] = replica.hear({ type: "groups.errored", chunk, cause: "no", failure: null, messages: 0 });
    expect(returned).toMatchObject({ kind: "groups.returned" });
    expect(returned).not.toHaveProperty("body.failure");
  });
});

describe("a chunk", () => {
  const chunk = (id: string) => ({ id, leaseId: id.split("/")[0], lineage: 0, version: 1, items: [item(0)] });
  const errored = (id: string, messages = 0) => ({
    ...{ type: "groups.errored", chunk: chunk(id), cause: "no memory", failure: "oom", messages },
  });

  it("of which something is stored counts each of its messages and what is handed back", () => {
    const replica = after(lease("1-1", 1));
    replica.hear(errored("1-1/0", 2));
    expect(contextOf(replica)).toMatchObject({ untold: { "1-1/0": 3 }, current: null });
    for (let i = 0; i < 3; i++) replica.hear(told("1-1/0"));
    expect(contextOf(replica).untold).toEqual({});
  });

  it("that ends late, after it was taken from its replica, is told of all the same and counted", () => {
    const replica = after(lease("1-1", 2));
    expect(replica.hear(generated("1-0/0", 2))).toMatchObject([{ type: "drop", reason: "late" }]);
    expect(replica.hear(errored("1-0/1", 1))).toMatchObject([{ kind: "groups.returned", body: { failure: "oom" } }]);
    expect(contextOf(replica)).toMatchObject({ untold: { "1-0/0": 2, "1-0/1": 2 }, current: { id: "1-1/0" } });
  });

  it("is handed back with a reason of at most two thousand characters", () => {
    const long = { ...errored("1-1/0"), cause: "no room ".repeat(1_000) };
    const [returned] = after(lease("1-1", 1)).hear(long);
    expect(returned?.body).toMatchObject({ reason: "no room ".repeat(250) });
  });

  it("that is not generated in time is given up and handed back as the engine's failure", () => {
    const replica = after(lease("1-1", 1));
    expect(replica.hear({ type: "xstate.after.lease.rollout.work.generating" })).toMatchObject([
      { type: "groups.abort", reason: "deadline" },
      { kind: "groups.returned", told: "1-1/0", body: { reason: "not generated in time", failure: "engine_crash" } },
    ]);
    expect(contextOf(replica)).toMatchObject({ current: null, untold: { "1-1/0": 1 } });
  });

  it("of which less is untold than was told before it, is none that waits", () => {
    // Told before it is known how many messages it has: less than nothing is still to be told of it.
    const replica = after(lease("1-1", 3), told("1-0/0"), told("1-0/1"));
    expect(contextOf(replica).untold).toMatchObject({ "1-0/0": -1, "1-0/1": -1 });
    expect(does(replica.hear(generated("1-1/0")))).toEqual(["groups.generate"]);
  });

  it("begins while one message of another is untold, and not while one message of two others is", () => {
    const replica = after(lease("1-1", 3));
    expect(does(replica.hear(generated("1-1/0")))).toEqual(["groups.generate"]);
    expect(does(replica.hear(generated("1-1/1")))).toEqual([]);
    expect(does(replica.hear(told("1-1/1")))).toEqual(["groups.generate"]);
  });
});

describe("receipts that are kept", () => {
  /** In the middle of the last chunk, with those of the one before kept. */
  const keeping = () => after(lease("1-1", 2), generated("1-1/0"));

  it("wait half a second, and their time is over when they are told", () => {
    const replica = keeping();
    expect(timersOf(replica, stored("1-1/0"))).toEqual(["start receipts 500"]);
    expect(keptMsMax).toBe(500);
    replica.hear(generated("1-1/1"));
    expect(timersOf(replica, stored("1-1/1"))).toEqual(["cancel receipts"]);
    expect(timersOf(replica, stored("1-1/1"))).toEqual([]);
  });

  it("are told once when the time of their lease is nearly over, and not with another lease's", () => {
    const replica = keeping();
    replica.hear(stored("1-1/0"));
    expect(does(replica.hear(due("1-0")))).toEqual([]);
    const before = replica.effects.length;
    expect(does(replica.hear(due("1-1")))).toEqual(["groups.completed", "groups.handBack"]);
    expect(replica.effects.slice(before)).toContainEqual({ type: "timer.cancel", id: "receipts" });
    expect(contextOf(replica).kept).toBeNull();
    expect(does(replica.hear({ type: "process.stopping", reason: "asked" }))).toEqual(["groups.handBack"]);
  });

  it("are told once when their replica leaves, which then has none", () => {
    const replica = keeping();
    replica.hear(stored("1-1/0"));
    expect(does(replica.hear({ type: "process.stopping", reason: "asked" }))).toEqual([
      "groups.completed",
      "groups.handBack",
    ]);
    expect(does(replica.hear({ type: "receipts.due" }))).toEqual([]);
    expect(does(after().hear({ type: "process.stopping", reason: "asked" }))).toEqual([]);
  });
});

describe("a rollout replica that leaves", () => {
  it("counts each chunk that it hands back until that is told", () => {
    const replica = after(lease("1-1", 3));
    expect(does(replica.hear({ type: "process.stopping", reason: "asked" }))).toEqual([
      ...["groups.returned", "groups.returned"],
      "groups.handBack",
    ]);
    expect(contextOf(replica)).toMatchObject({ queue: [], untold: { "1-1/0": 1, "1-1/1": 1, "1-1/2": 1 } });
  });
});

describe("the weights of a rollout replica", () => {
  it("are its own word on what it holds, of that version of that lineage", () => {
    const replica = after(pull(1, 5));
    for (const event of [pulled(0, 5), pulled(1, 4), failedPull(0, 5), failedPull(1, 4)])
      expect(replica.hear(event)).toMatchObject([{ type: "drop", reason: "late" }]);
    expect(replica.hear(pulled(1, 5))).toMatchObject([{ kind: "weights.held", body: { lineage: 1, version: 5 } }]);
    expect(replica.hear(pull(1, 5))).toMatchObject([{ kind: "weights.held", body: { lineage: 1, version: 5 } }]);
    for (const older of [pull(1, 4), pull(0, 9)])
      expect(replica.hear(older)).toMatchObject([{ reason: "older weights" }]);
    expect(does(replica.hear(pull(2, 5)))).toEqual(["weights.pull"]);
  });

  it("are pulled once, and others in their place where either name differs", () => {
    const replica = after(pull(1, 5));
    expect(replica.hear(pull(1, 5))).toMatchObject([{ type: "drop", reason: "already pulling it" }]);
    expect(does(replica.hear(pull(1, 6)))).toEqual(["weights.abort", "weights.pull"]);
    expect(does(replica.hear(pull(2, 6)))).toEqual(["weights.abort", "weights.pull"]);
  });

  it("have the whole time, however often others were wanted before", () => {
    const replica = after(pull(1, 5));
    const timers = timersOf(replica, pull(1, 6));
    expect(timers.filter((timer) => timer.startsWith("start"))).toEqual([
      expect.stringContaining(` ${plan.timing.pullMs}`),
    ]);
  });

  it("that can not be had, or not in time, are named with the cause", () => {
    expect(after(pull(1, 5)).hear(failedPull(1, 5))[0]?.body).toStrictEqual({ lineage: 1, version: 5, cause: "no" });
    const [, late] = after(pull(1, 5)).hear({ type: "xstate.after.pull.rollout.weights.syncing" });
    expect(late?.body).toStrictEqual({ lineage: 1, version: 5, cause: "not pulled in time" });
  });
});

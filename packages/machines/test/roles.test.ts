/** What single replicas do, beyond what the walk of their graphs shows: the content of what they say. */
import { membershipLogic, policyLogic, rolloutLogic } from "@muster/machines";
import { chunksOf } from "@muster/machines/internal";
import type { Body } from "@muster/protocol";
import { describe, expect, it } from "vitest";
import { checkpointLogic } from "../src/checkpoint/checkpoint-machine.ts";
import { registrationOf } from "../src/membership/membership-machine.ts";
import { plan } from "./plans.ts";
import { type Effect, eventOf, Replica } from "./replica.ts";

const timing = { ...plan.timing, initializeMs: 9, registerMs: 20_000 };

describe("a lease is cut into chunks", () => {
  const train = (index: number) => ({ purpose: "train" as const, step: 2, index, attempt: 0 });
  const evaluate = (chunk: number) => ({ purpose: "eval" as const, chunk, from: 0, count: 64 });
  const lease = (items: Body<"groups.lease">["items"]) => ({ leaseId: "1-1", lineage: 0, version: 1, items });
  const shapes = (items: Body<"groups.lease">["items"], size: number): string[] =>
    chunksOf(lease(items), size).map(({ id, items: own }) => `${id} ${own.map(({ purpose }) => purpose[0]).join("")}`);

  it("of the given size, in order, with ids of their own", () => {
    expect(shapes([0, 1, 2, 3, 4].map(train), 2)).toEqual(["1-1/0 tt", "1-1/1 tt", "1-1/2 t"]);
  });

  it("that never mix held-out prompts with groups, and hold one piece of an evaluation each", () => {
    expect(shapes([evaluate(0), evaluate(1), train(0), train(1), evaluate(2), train(2)], 4)).toEqual([
      "1-1/0 e",
      "1-1/1 e",
      "1-1/2 tt",
      "1-1/3 e",
      "1-1/4 t",
    ]);
  });

  it("that hold every item exactly once", () => {
    const items = [train(0), evaluate(0), train(1), train(2)];
    expect(chunksOf(lease(items), 2).flatMap((chunk) => chunk.items)).toEqual(items);
  });
});

describe("a checkpoint actor that writes", () => {
  const save = (lineage: number, step: number, write?: readonly number[]) => ({
    type: "checkpoint.save",
    body: { lineage, step, version: step, ...(write ? { shards: { write } } : {}) },
  });
  const abort = ["checkpoint.abort", "checkpoint.write"];

  it.each<[string, object, readonly string[]]>([
    ["the same again", save(1, 5), ["drop"]],
    ["an older step", save(1, 4), ["drop"]],
    ["a newer step", save(1, 6), abort],
    ["an older step of a newer lineage", save(2, 1), abort],
    ["an older step of an older lineage", save(0, 4), ["drop"]],
    ["another part of the same", save(1, 5, [2]), abort],
    ["another part of an older step", save(1, 4, [2]), ["drop"]],
  ])("and is asked for %s", (_, asked, does) => {
    const actor = new Replica(checkpointLogic, { checkpointMs: 9 });
    expect(actor.hear(save(1, 5)).map(({ type }) => type)).toEqual(["checkpoint.write"]);
    const timers = actor.effects.length;
    expect(actor.hear(asked).map(({ type }) => type)).toEqual(does);
    // Whoever begins anew has the whole time for it.
    const starts = actor.effects.slice(timers).filter(({ type }) => type === "timer.start");
    expect(starts).toHaveLength(does === abort ? 1 : 0);
  });
});

describe("what a checkpoint actor hears of its work", () => {
  const shards = (write: readonly number[]) => ({ of: 2, write });
  const whole = { lineage: 1, step: 5, version: 5 };
  const part = { ...whole, shards: shards([1]) };
  const results = ["checkpoint.written", "shards.written", "checkpoint.errored"];

  it.each<[string, object, object]>([
    ["another step", whole, { ...whole, step: 4 }],
    ["another lineage", whole, { ...whole, lineage: 0 }],
    ["a part of it, while it writes the whole", whole, part],
    ["the whole, while it writes a part", part, whole],
    ["another part", part, { ...whole, shards: shards([2]) }],
  ])("counts for nothing when it is about %s", (_, wanted, other) => {
    for (const type of results) {
      const actor = new Replica(checkpointLogic, { checkpointMs: 9 });
      actor.hear({ type: "checkpoint.save", body: wanted });
      expect(actor.hear({ type, ...other, cause: "no" }), type).toMatchObject([{ type: "drop", reason: "late" }]);
      expect(actor.hear({ type, ...wanted, cause: "no" }), type).toMatchObject([{ type: "report" }]);
      expect(actor.hear({ type, ...wanted, cause: "no" }), `${type} again`).toMatchObject([{ type: "drop" }]);
    }
  });

  it("is of the version that it wants to keep in memory, and it says what it keeps when it is asked again", () => {
    const actor = new Replica(checkpointLogic, { checkpointMs: 9, pullMs: 7 });
    const pull = (version: number) => ({
      type: "weights.pull",
      body: { lineage: 0, version, sections: [], holders: [] },
    });
    const end = (type: string, version: number, lineage = 0) => ({ type, lineage, version, sections: [], cause: "no" });
    actor.hear(pull(2));
    expect(actor.hear(pull(2))).toMatchObject([{ type: "drop", reason: "already pulling it" }]);
    for (const type of ["weights.pulled", "weights.errored"])
      for (const other of [end(type, 1), end(type, 2, 1)])
        expect(actor.hear(other), type).toMatchObject([{ type: "drop", reason: "late" }]);
    expect(actor.hear(end("weights.pulled", 2))).toMatchObject([{ kind: "weights.held", body: { version: 2 } }]);
    expect(actor.hear(pull(2))).toMatchObject([{ kind: "weights.held", body: { version: 2 } }]);
    expect(actor.hear(pull(1))).toMatchObject([{ type: "drop", reason: "older weights" }]);
    actor.hear(pull(3));
    expect(actor.hear(end("weights.errored", 3))).toMatchObject([{ kind: "weights.failed", body: { version: 3 } }]);
  });

  it("begins with another version when that is wanted in place of the one on its way", () => {
    const actor = new Replica(checkpointLogic, { checkpointMs: 9, pullMs: 7 });
    const pull = (version: number) => ({
      type: "weights.pull",
      body: { lineage: 0, version, sections: [], holders: [] },
    });
    expect(actor.hear(pull(1)).map(({ type }) => type)).toEqual(["weights.pull"]);
    const timers = actor.effects.length;
    expect(actor.hear(pull(2)).map(({ type }) => type)).toEqual(["weights.abort", "weights.pull"]);
    expect(actor.effects.slice(timers)).toContainEqual(expect.objectContaining({ type: "timer.start", delayMs: 7 }));
  });
});

describe("a replica that wants to be a member", () => {
  const timing = { registerMs: 10, gatherMs: 30, drainMs: 5 };
  const input = { role: "policy", host: "h", pid: 3, build: "b", node: null, timing } as const;

  it("says of itself what there is to say, and nothing else", () => {
    const said = { role: "policy", host: "h", pid: 3, engineBuild: "b" };
    expect(registrationOf(input)).toStrictEqual(said);
    expect(registrationOf({ ...input, devices: [] })).toStrictEqual(said);
    const all = { node: "n0", devices: [{ kind: "cuda", index: 0 }], life: 0 } as never;
    expect(registrationOf({ ...input, ...(all as object) })).toStrictEqual({ ...said, ...(all as object) });
  });

  it("asks again and again until the job should have begun, and then ends", () => {
    const replica = new Replica(membershipLogic, input);
    const due = (): readonly unknown[] => {
      const timer = replica.effects.findLast(({ type }) => type === "timer.start") as unknown as { event: object };
      return replica.hear(timer.event);
    };
    for (let asked = 2; asked <= 3; asked++) expect(due()).toMatchObject([{ kind: "replica.register" }]);
    expect(due()).toMatchObject([{ type: "process.end", outcome: "failed", reason: "no controller answered" }]);
  });
});

describe("a rollout replica", () => {
  const start = (): Replica => new Replica(rolloutLogic, { timing, chunkGroups: 2, leasesMax: 2 });
  const lease = (n: number): object => eventOf("rollout", "groups.lease", n);
  const begunItems = [
    { ...{ purpose: "train" as const, step: 1, index: 0, attempt: 0 }, partial: { streamSeq: 7, tokens: 30 } },
  ];

  it("tells what is saved of a chunk and goes on with it", () => {
    const replica = start();
    replica.hear(lease(0));
    const { snapshot } = replica;
    const saved = { type: "groups.saved" as const, leaseId: "1-1", items: begunItems };
    expect(replica.hear(saved)).toMatchObject([{ kind: "groups.saved", body: { leaseId: "1-1", items: begunItems } }]);
    expect(replica.snapshot).toEqual(snapshot);
  });

  it("looks at a lease again a while before its time is over", () => {
    const replica = start();
    replica.hear(lease(0));
    const timers = replica.effects.filter(({ type }) => type === "timer.start") as unknown as { delayMs: number }[];
    expect(timers[0]).toMatchObject({ event: { type: "lease.due", leaseId: "1-1" } });
    expect(timers[0]?.delayMs).toBeLessThan(timing.leaseMs);
    expect(timers[0]?.delayMs).toBeGreaterThan(timing.leaseMs / 2);
  });

  it("generates a lease chunk by chunk, and knows a repeated one", () => {
    const replica = start();
    expect(replica.hear(lease(0))).toMatchObject([{ type: "groups.generate", chunk: { id: "1-1/0" } }]);
    expect(replica.hear(lease(0))).toMatchObject([{ type: "drop", reason: "known lease" }]);
    expect(replica.hear({ type: "groups.generated", chunkId: "1-1/0", messages: 1 })).toMatchObject([
      { chunk: { id: "1-1/1" } },
    ]);
    expect(replica.hear({ type: "groups.generated", chunkId: "1-1/1", messages: 1 })).toEqual([]);
  });

  it("does not begin a chunk while two earlier ones are untold, and hands it back when its lease is nearly over meanwhile", () => {
    const replica = new Replica(rolloutLogic, { timing, chunkGroups: 1, leasesMax: 2 });
    const done = (n: number): Effect[] => replica.hear({ type: "groups.generated", chunkId: `1-1/${n}`, messages: 1 });
    replica.hear(lease(0));
    expect(done(0)).toMatchObject([{ type: "groups.generate", chunk: { id: "1-1/1" } }]);
    expect(done(1)).toEqual([]);
    const stored = { type: "groups.stored", chunkId: "1-1/0", leaseId: "1-1", receipts: [], causes: [], durationMs: 1 };
    expect(replica.hear(stored)).toMatchObject([{ kind: "groups.completed", told: "1-1/0" }]);
    const waiting = replica.snapshot;
    expect(replica.hear({ type: "report.told", id: "1-1/0" })).toMatchObject([{ chunk: { id: "1-1/2" } }]);
    replica.snapshot = waiting;
    const [back, ...others] = replica.hear({ type: "lease.due", leaseId: "1-1" });
    expect(back).toMatchObject({ kind: "groups.returned", body: { items: [{ index: 2 }] } });
    expect(back).not.toHaveProperty("body.failure");
    expect(others).toEqual([]);
  });

  describe("tells what is stored of a lease", () => {
    const stored = (n: number, causes: readonly object[] = []): object => ({
      type: "groups.stored",
      ...{ chunkId: `1-1/${n}`, leaseId: "1-1", causes, durationMs: 10 + n },
      receipts: [
        { step: 1, index: n, attempt: 0, streamSeq: n, version: 1, completed: 2, aborted: 0, tokens: 3, rewardSum: 1 },
      ],
    });
    const generated = (n: number): object => ({ type: "groups.generated", chunkId: `1-1/${n}`, messages: 1 });
    /** In the middle of the last chunk of a lease of three; the first is told. */
    const last = (): Replica => {
      const replica = new Replica(rolloutLogic, { timing, chunkGroups: 1, leasesMax: 2 });
      for (const event of [lease(0), generated(0), stored(0), { type: "report.told", id: "1-1/0" }, generated(1)])
        replica.hear(event as { type: string });
      return replica;
    };
    const hear = (replica: Replica, event: object): readonly unknown[] => replica.hear(event as { type: string });
    const indices = (effects: readonly unknown[]): unknown[] =>
      effects.flatMap((effect) => {
        const { kind, body } = effect as { kind?: string; body?: { receipts: { index: number }[] } };
        return kind === "groups.completed" ? [body?.receipts.map(({ index }) => index)] : [];
      });

    it("with its last chunk, in one report that ends the wait for both", () => {
      const replica = last();
      expect(indices(hear(replica, stored(1)))).toEqual([]);
      hear(replica, generated(2));
      const both = hear(replica, stored(2));
      expect(indices(both)).toEqual([[1, 2]]);
      expect(both).toContainEqual(expect.objectContaining({ told: "1-1/1 1-1/2" }));
      expect(both).toContainEqual(expect.objectContaining({ body: expect.objectContaining({ durationMs: 23 }) }));
      hear(replica, { type: "report.told", id: "1-1/1 1-1/2" });
      expect(replica.snapshot).toMatchObject({ context: { untold: {}, kept: null } });
    });

    it("at once while other work of it waits, and where trajectories were aborted", () => {
      const replica = new Replica(rolloutLogic, { timing, chunkGroups: 1, leasesMax: 2 });
      hear(replica, lease(0));
      hear(replica, generated(0));
      expect(indices(hear(replica, stored(0)))).toEqual([[0]]);
      expect(indices(hear(last(), stored(1, [{ name: "Reward", message: "no", count: 1, sample: "1.1/0" }])))).toEqual([
        [1],
      ]);
    });

    it("when its time is nearly over", () => {
      const replica = last();
      hear(replica, stored(1));
      expect(indices(hear(replica, { type: "lease.due", leaseId: "1-1" }))).toEqual([[1]]);
      expect(indices(hear(replica, { type: "receipts.due" }))).toEqual([]);
    });

    it("before the last chunk is done when that takes long, and when it is asked to leave", () => {
      const due = last();
      hear(due, stored(1));
      expect(indices(hear(due, { type: "receipts.due" }))).toEqual([[1]]);
      expect(indices(hear(due, { type: "receipts.due" }))).toEqual([]);
      const leaving = last();
      hear(leaving, stored(1));
      expect(indices(hear(leaving, eventOf("rollout", "process.stopping")))).toEqual([[1]]);
    });
  });

  it("counts what it hands back, and each message of a chunk, in whatever order they are told", () => {
    const replica = new Replica(rolloutLogic, { timing, chunkGroups: 1, leasesMax: 2 });
    const untold = (): unknown => (replica.snapshot as { context: { untold: unknown } }).context.untold;
    replica.hear(lease(0));
    replica.hear({ type: "lease.due", leaseId: "1-1" });
    expect(untold()).toEqual({ "1-1/0": 1, "1-1/1": 1, "1-1/2": 1 });
    replica.hear({ type: "report.told", id: "1-1/1" });
    replica.hear({ type: "report.told", id: "1-1/2" });
    // What was begun is told before the rest of the chunk is whole.
    replica.hear({ type: "groups.begun", chunkId: "1-1/0", leaseId: "1-1", items: begunItems });
    replica.hear({ type: "report.told", id: "1-1/0" });
    replica.hear({ type: "groups.generated", chunkId: "1-1/0", messages: 2 });
    expect(untold()).toEqual({ "1-1/0": 1 });
    replica.hear({ type: "report.told", id: "1-1/0" });
    expect(untold()).toEqual({});
  });

  it("hands back what it has not begun when it leaves, finishes what it has, and takes nothing new", () => {
    const replica = start();
    replica.hear(lease(0));
    const returned = replica.hear(eventOf("rollout", "process.stopping"));
    expect(returned).toMatchObject([
      { kind: "groups.returned", body: { leaseId: "1-1", items: [{ index: 2 }], reason: "asked" } },
      { type: "groups.handBack", reason: "asked" },
    ]);
    const begun = { type: "groups.begun" as const, chunkId: "1-1/0", leaseId: "1-1", items: begunItems };
    expect(replica.hear(begun)).toMatchObject([
      { kind: "groups.returned", body: { leaseId: "1-1", items: begunItems } },
    ]);
    expect(replica.hear(lease(1))).toMatchObject([
      { kind: "groups.returned", body: { leaseId: "1-2", reason: "leaving" } },
    ]);
    expect(
      replica.hear({
        type: "groups.stored",
        chunkId: "1-1/0",
        leaseId: "1-1",
        receipts: [],
        causes: [],
        durationMs: 1,
      }),
    ).toMatchObject([{ kind: "groups.completed" }]);
  });

  it("hands a chunk back that its engine could not do, and goes on with the next", () => {
    const replica = start();
    replica.hear(lease(0));
    const effects = replica.hear(eventOf("rollout", "groups.errored"));
    expect(effects).toMatchObject([
      { kind: "groups.returned", body: { items: [{ index: 0 }, { index: 1 }] } },
      { chunk: { id: "1-1/1" } },
    ]);
  });

  it("says why in as many characters as a report may have, however much the engine says", () => {
    const replica = start();
    replica.hear(lease(0));
    const { chunk } = eventOf("rollout", "groups.errored") as { chunk: object };
    const cause = "no room ".repeat(1_000);
    const [returned] = replica.hear({ type: "groups.errored", chunk, cause, failure: null, messages: 0 });
    expect(returned).toMatchObject({ kind: "groups.returned", body: { reason: cause.slice(0, 2_000) } });
  });

  it("hands back what it has not finished when a lease is nearly over, and goes on with the next lease", () => {
    const replica = start();
    expect(replica.hear(lease(0))).toContainEqual({ type: "groups.generate", chunk: expect.anything() });
    replica.hear(lease(1));
    const due = { type: "lease.due" as const, leaseId: "1-1" };
    expect(replica.hear(due)).toMatchObject([
      { kind: "groups.returned", body: { leaseId: "1-1", items: [{ index: 2 }] } },
      { type: "groups.handBack" },
    ]);
    const begun = { type: "groups.begun" as const, chunkId: "1-1/0", leaseId: "1-1", items: begunItems };
    const [handedBack] = replica.hear(begun);
    expect(handedBack).toMatchObject({ kind: "groups.returned", body: { items: begunItems } });
    expect(handedBack).not.toHaveProperty("body.failure");
    replica.hear({ type: "report.told", id: "1-1/1" });
    expect(replica.hear({ type: "groups.generated", chunkId: "1-1/0", messages: 1 })).toContainEqual(
      expect.objectContaining({ type: "groups.generate", chunk: expect.objectContaining({ leaseId: "1-2" }) }),
    );
    expect(replica.hear(due)).toEqual([]);
  });

  it("counts a failure against work that could not even be handed back when its lease was nearly over", () => {
    const replica = start();
    replica.hear(lease(0));
    replica.hear({ type: "lease.due", leaseId: "1-1" });
    const { chunk } = eventOf("rollout", "groups.errored") as { chunk: object };
    const effects = replica.hear({ type: "groups.errored", chunk, cause: "stuck", failure: null, messages: 0 });
    expect(effects).toMatchObject([{ kind: "groups.returned", body: { failure: "engine_crash" } }]);
  });

  it("goes on generating while it pulls", () => {
    const replica = start();
    replica.hear(lease(0));
    replica.hear(eventOf("rollout", "weights.pull"));
    expect(replica.value).toEqual({ weights: "syncing", work: "generating" });
  });

  it("says with the first version that it holds what its engine is, and not again", () => {
    const replica = start();
    const engine = { build: "b", fingerprint: "f" };
    const heldAfter = (version: number): unknown => {
      const body = { lineage: 0, version, sections: [] };
      replica.hear({ type: "weights.pull", body: { ...body, holders: [] } });
      const [said] = replica.hear({ type: "weights.pulled", ...body, addresses: [], bytes: 1, durationMs: 1, engine });
      return said;
    };
    expect(heldAfter(7)).toMatchObject({ kind: "weights.held", body: { version: 7, engine } });
    expect(heldAfter(8)).toMatchObject({ kind: "weights.held", body: { version: 8 } });
    expect(heldAfter(9)).not.toHaveProperty("body.engine");
  });

  it("gives up a pull for another version, and says it holds only what it pulled last", () => {
    const replica = start();
    replica.hear(eventOf("rollout", "weights.pull", 0));
    expect(replica.hear(eventOf("rollout", "weights.pull", 1)).map(({ type }) => type)).toEqual([
      "weights.abort",
      "weights.pull",
    ]);
    expect(replica.hear(eventOf("rollout", "weights.pulled", 0))).toMatchObject([{ type: "drop", reason: "late" }]);
    expect(replica.hear(eventOf("rollout", "weights.pulled", 1))).toMatchObject([
      { kind: "weights.held", body: { version: 2 } },
    ]);
  });
});

describe("a policy replica", () => {
  const held = (): Replica => {
    const replica = new Replica(policyLogic, { timing });
    replica.hear(eventOf("policy", "weights.initialize"));
    replica.hear(eventOf("policy", "weights.initialized"));
    return replica;
  };
  const computing = (): Replica => {
    const replica = held();
    replica.hear(eventOf("policy", "mesh.build"));
    replica.hear(eventOf("policy", "mesh.joined"));
    replica.hear(eventOf("policy", "step.run"));
    return replica;
  };

  it("says in the handshake of a mesh what its engine is, also when it is asked again", () => {
    const replica = held();
    const order = eventOf("policy", "mesh.build");
    replica.hear(order);
    const engine = { build: "torch-2", fingerprint: "f" };
    const joined = { ...eventOf("policy", "mesh.joined"), engine };
    const said = [{ kind: "mesh.built", body: { engine } }];
    expect(replica.hear(joined)).toMatchObject(said);
    expect(replica.hear(order)).toMatchObject(said);
  });

  const voted = (): Replica => {
    const replica = computing();
    replica.hear(eventOf("policy", "step.computed"));
    return replica;
  };

  it("gives up a pull for one of another lineage, and the making of weights for a pull", () => {
    const replica = new Replica(policyLogic, { timing });
    const pull = (lineage: number, version: number): object => ({
      type: "weights.pull",
      body: { lineage, version, sections: [], holders: [] },
    });
    const typesOf = (event: object): string[] => replica.hear(event).map(({ type }) => type);
    expect(typesOf(eventOf("policy", "weights.initialize"))).toEqual(["weights.initialize"]);
    expect(typesOf(pull(1, 5))).toEqual(["weights.abort", "weights.pull"]);
    expect(replica.hear(pull(1, 5))).toMatchObject([{ type: "drop", reason: "already pulling it" }]);
    expect(typesOf(pull(2, 3))).toEqual(["weights.abort", "weights.pull"]);
    const fresh = { type: "weights.initialize", body: { lineage: 3, version: 0, source: { kind: "seed", seed: 1 } } };
    expect(typesOf(fresh)).toEqual(["weights.abort", "weights.initialize"]);
  });

  it("takes what arrives only for what it asked for: that version of that lineage", () => {
    const replica = new Replica(policyLogic, { timing });
    const body = { lineage: 1, version: 5, sections: [], holders: [] };
    replica.hear({ type: "weights.pull", body });
    const pulled = (lineage: number, version: number): object => ({
      ...{ type: "weights.pulled", lineage, version, sections: [], addresses: [], bytes: 1, durationMs: 1 },
    });
    for (const [lineage, version] of [
      [0, 5],
      [1, 4],
    ] as const) {
      expect(replica.hear(pulled(lineage, version))).toMatchObject([{ type: "drop", reason: "late" }]);
      const errored = { type: "weights.errored", lineage, version, cause: "late", damage: null };
      expect(replica.hear(errored)).toMatchObject([{ type: "drop", reason: "late" }]);
    }
    expect(replica.hear(pulled(1, 5))).toMatchObject([{ kind: "weights.held", body: { lineage: 1, version: 5 } }]);
  });

  it("that voted goes back with the others: nobody decides on the attempt any more", () => {
    const replica = voted();
    const again = { type: "weights.initialize", body: { lineage: 1, version: 0, source: { kind: "seed", seed: 1 } } };
    const types = replica.hear(again).map(({ type }) => type);
    expect(types).toEqual(["step.discard", "mesh.abort", "weights.initialize"]);
    expect(replica.value).toBe("initializing");
  });

  it("that computes goes back with the others, too, and leaves its mesh", () => {
    const replica = computing();
    const again = { type: "weights.initialize", body: { lineage: 1, version: 0, source: { kind: "seed", seed: 1 } } };
    const types = replica.hear(again).map(({ type }) => type);
    expect(types).toEqual(["step.discard", "mesh.abort", "weights.initialize"]);
    expect(replica.value).toBe("initializing");
  });

  it("that voted takes the order for a newer attempt, or a newer version, for the end of its own", () => {
    const replica = voted();
    const run = eventOf("policy", "step.run") as { type: string; body: Body<"step.run"> };
    const older = { ...run, body: { ...run.body, step: run.body.step - 1, attempt: 9 } };
    expect(replica.hear(older)).toMatchObject([{ type: "drop" }]);
    const next = { ...run, body: { ...run.body, step: run.body.step + 1 } };
    expect(replica.hear(next).map(({ type }) => type)).toEqual(["step.discard", "step.compute"]);
    const other = voted();
    const pull = { lineage: 0, version: run.body.version + 1, sections: [], holders: [] };
    expect(other.hear({ type: "weights.pull", body: pull }).map(({ type }) => type)).toEqual([
      "step.discard",
      "weights.pull",
    ]);
  });

  it("leaves a mesh that it is joining when it is to get other weights first", () => {
    const replica = held();
    replica.hear(eventOf("policy", "mesh.build"));
    const pull = { type: "weights.pull", body: { lineage: 1, version: 9, sections: [], holders: [] } };
    expect(replica.hear(pull).map(({ type }) => type)).toEqual(["mesh.abort", "weights.pull"]);
    expect(replica.value).toBe("syncing");
  });

  it("votes with what it computed, says it again when asked again, and applies only that", () => {
    const replica = computing();
    const [vote] = replica.hear(eventOf("policy", "step.computed"));
    expect(vote).toMatchObject({
      kind: "step.voted",
      body: { vote: "commit", finite: true, step: 2, attempt: 1, epoch: 1 },
    });
    expect(replica.hear(eventOf("policy", "step.run"))).toEqual([vote]);
    const apply = eventOf("policy", "step.apply") as { type: string; body: Body<"step.apply"> };
    const other = { ...apply, body: { ...apply.body, sections: [{ name: "weights", bytes: 8, digest: "other" }] } };
    expect(replica.hear(other)).toMatchObject([{ type: "drop", reason: "not the candidate of this replica" }]);
    expect(replica.hear(apply)).toMatchObject([{ type: "step.promote" }]);
  });

  it("answers a commit that it has made live already with what it holds", () => {
    const replica = voted();
    replica.hear(eventOf("policy", "step.apply"));
    const [report] = replica.hear(eventOf("policy", "step.promoted", 1));
    expect(report).toMatchObject({ kind: "weights.held", body: { version: 2 } });
    expect(replica.hear(eventOf("policy", "step.apply"))).toEqual([report]);
  });

  it("does not take the end of another promotion for its own", () => {
    const replica = voted();
    replica.hear(eventOf("policy", "step.apply"));
    expect(replica.hear(eventOf("policy", "step.promoted", 0))).toMatchObject([{ type: "drop", reason: "late" }]);
    expect(replica.value).toBe("applying");
  });

  it("that cannot make a commit live in time says which version it could not get, and holds nothing", () => {
    const replica = voted();
    replica.hear(eventOf("policy", "step.apply"));
    const [report] = replica.hear({ type: "xstate.after.command.policy.applying" });
    expect(report).toMatchObject({
      kind: "weights.failed",
      body: { lineage: 0, version: 2, cause: "not promoted in time" },
    });
    expect((replica.snapshot as { context: { held: unknown } }).context.held).toBeNull();
  });

  it("votes abort and leaves the mesh when the step takes too long", () => {
    const effects = computing().hear({ type: "xstate.after.step.policy.computing" });
    expect(effects).toMatchObject([
      { type: "mesh.abort" },
      { kind: "step.voted", body: { vote: "abort", sections: [] } },
    ]);
  });

  it("says which members it missed", () => {
    const [vote] = computing().hear(eventOf("policy", "step.errored"));
    expect(vote).toMatchObject({ body: { vote: "abort", cause: "lost p1", missing: ["p1"] } });
  });

  it("does not join an epoch again whose step was given up under it", () => {
    const replica = computing();
    const effects = replica.hear(eventOf("policy", "step.discard"));
    expect(effects.map(({ type }) => type)).toEqual(["mesh.abort", "step.discard"]);
    replica.hear(eventOf("policy", "weights.pull", 1));
    expect(replica.hear(eventOf("policy", "weights.pulled", 1)).map(({ kind }) => kind)).toEqual(["weights.held"]);
    expect(replica.value).toBe("waiting");
    expect(replica.hear(eventOf("policy", "mesh.build", 1))).toMatchObject([{ type: "mesh.open", body: { epoch: 2 } }]);
  });
});

describe("whoever is to pull another version", () => {
  it.each([
    ["a policy replica", policyLogic],
    ["a rollout replica", rolloutLogic],
    ["a checkpoint actor", checkpointLogic],
  ])("has the whole time for it: %s", (_, logic) => {
    const replica = new Replica(logic, { timing: { ...timing, pullMs: 30 }, pullMs: 30, chunkGroups: 2, leasesMax: 2 });
    const deadlines = (): number => replica.effects.filter(({ type }) => type === "timer.start").length;
    for (const version of [1, 2, 3]) {
      replica.hear({ type: "weights.pull", body: { lineage: 0, version, sections: [], holders: [] } });
      expect(deadlines()).toBe(version);
    }
  });
});

describe("membership", () => {
  const start = (): Replica =>
    new Replica(membershipLogic, { role: "policy", host: "h", pid: 1, build: "b", node: null, timing });

  it("asks again until it has waited as long as replicas may be gathered, then gives up", () => {
    const replica = start();
    const again = { type: "xstate.after.register.membership.registering" };
    expect(replica.effects[0]).toMatchObject({ kind: "replica.register", body: { role: "policy", engineBuild: "b" } });
    expect([replica.hear(again), replica.hear(again)]).toMatchObject([
      [{ kind: "replica.register" }],
      [{ kind: "replica.register" }],
    ]);
    expect(replica.hear(again)).toMatchObject([
      { type: "process.end", outcome: "failed", reason: "no controller answered" },
    ]);
  });

  it("opens the engine as it is admitted, and leaves when it is released", () => {
    const replica = start();
    expect(replica.hear(eventOf("membership", "replica.registered"))).toMatchObject([{ type: "engine.open" }]);
    expect(replica.hear(eventOf("membership", "process.stopping"))).toMatchObject([{ kind: "replica.draining" }]);
    expect(replica.hear(eventOf("membership", "replica.stop"))).toMatchObject([
      { kind: "replica.left" },
      { outcome: "left" },
    ]);
  });

  it.each([
    ["replica.fenced", "fenced"],
    ["replica.refused", "refused"],
    ["engine.failed", "failed"],
  ])("ends on %s as %s, without a word that it left", (type, outcome) => {
    expect(start().hear(eventOf("membership", type))).toMatchObject([{ type: "process.end", outcome }]);
  });
});

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { openFence } from "../src/core/fence.ts";
import { type Need, Pool, type PoolPolicy, type Ticket } from "../src/core/pool.ts";
import { nextMove, RetryBudget } from "../src/core/retry.ts";
import { StickyTable } from "../src/core/sticky.ts";
import { isServing, type ProbeResult, type RequestVerdict } from "../src/core/worker.ts";

const policy: PoolPolicy = {
  health: { firstWaitMs: 1_000, intervalMs: 100, threshold: 3, readmitUnverified: false },
  ...{ workersMax: 8, activeMax: 4, stickyKeysMax: 16, stickyIdleMs: 10_000 },
};
const need = (over: Partial<Need> = {}): Need => ({ fence: openFence, stickyKey: null, tried: new Set(), ...over });
const up = (version: string | null = "1", incarnation: string | null = null): ProbeResult => ({
  ...{ ok: true, version, incarnation, resumes: false, model: null },
});
const down = (refused = false): ProbeResult => ({ ok: false, refused, detail: "time-out" });

function poolOf(ids: readonly string[], version: string | null = "1"): Pool {
  const pool = new Pool(policy);
  for (const id of ids) {
    pool.add(id, `http://${id}`, 0);
    pool.probed(id, 1, up(version), 0);
  }
  return pool;
}

const stateOf = (pool: Pool, id: string) => pool.worker(id)?.state;

describe("whatever happens in whatever order", () => {
  const id = fc.constantFrom("a", "b", "c");
  const version = fc.constantFrom(null, "1", "2", "3", "default");
  const step = fc.oneof(
    {
      weight: 4,
      arbitrary: fc.record({ do: fc.constant("take" as const), key: fc.option(fc.constantFrom("k", "l")) }),
    },
    {
      weight: 4,
      arbitrary: fc.record({
        do: fc.constant("end" as const),
        which: fc.nat(20),
        how: fc.constantFrom("served", "failed", "refused", "gone", "twice"),
        version,
      }),
    },
    {
      weight: 2,
      arbitrary: fc.record({ do: fc.constant("probe" as const), id, ok: fc.boolean(), refused: fc.boolean(), version }),
    },
    fc.record({ do: fc.constant("add" as const), id }),
    fc.record({ do: fc.constant("remove" as const), id }),
  );

  test("each worker's count is that of its open requests, and the least active one that qualifies is chosen", () => {
    fc.assert(
      fc.property(fc.array(step, { maxLength: 120 }), (steps) => {
        const pool = poolOf(["a", "b", "c"]);
        const open: { ticket: Ticket; row: string }[] = [];
        const births = new Map([
          ["a", 0],
          ["b", 0],
          ["c", 0],
        ]);
        const rowOf = (workerId: string) => `${workerId}/${births.get(workerId)}`;
        let nowMs = 0;
        for (const one of steps) {
          nowMs += 7;
          if (one.do === "take") {
            const before = pool.workers();
            const taken = pool.take(need({ stickyKey: one.key }), nowMs);
            const free = before.filter((worker) => isServing(worker) && worker.active < policy.activeMax);
            if (typeof taken === "string") expect(free).toEqual([]);
            else {
              open.push({ ticket: taken, row: rowOf(taken.workerId) });
              const chosen = before.find((worker) => worker.id === taken.workerId);
              const healthy = free.filter(({ state }) => state === "healthy");
              const rivals = healthy.length > 0 ? healthy : free;
              if (taken.sticky !== "hit") expect(chosen?.active).toBe(Math.min(...rivals.map(({ active }) => active)));
            }
          } else if (one.do === "end") {
            const [gone] = open.splice(one.which % Math.max(1, open.length), 1);
            if (!gone) continue;
            const verdict: RequestVerdict =
              one.how === "served"
                ? { kind: "served", version: one.version }
                : one.how === "gone" || one.how === "twice"
                  ? { kind: "neutral" }
                  : { kind: "failed", refused: one.how === "refused", detail: "reset" };
            pool.end(gone.ticket, verdict, nowMs);
            if (one.how === "twice") pool.end(gone.ticket, { kind: "neutral" }, nowMs);
          } else if (one.do === "probe") {
            const life = pool.worker(one.id)?.life ?? 0;
            pool.probed(one.id, life, one.ok ? up(one.version) : down(one.refused), nowMs);
          } else if (one.do === "add") pool.add(one.id, `http://${one.id}`, nowMs);
          else if (pool.remove(one.id)) births.set(one.id, (births.get(one.id) ?? 0) + 1);
          for (const { id: workerId, active } of pool.workers())
            expect(active).toBe(open.filter(({ row }) => row === rowOf(workerId)).length);
          expect(pool.active).toBe(open.length);
        }
      }),
      { numRuns: 500 },
    );
  });

  test("who left the pool of those that serve comes back with current weights and never with older ones", () => {
    fc.assert(
      fc.property(fc.array(fc.record({ ok: fc.boolean(), version: fc.nat(5) }), { maxLength: 60 }), (probes) => {
        const pool = poolOf(["a", "b"], "3");
        for (const [i, { ok, version: number }] of probes.entries()) {
          const before = pool.worker("a");
          const { newest } = pool;
          pool.probed("a", before?.life ?? 0, ok ? up(`${number}`) : down(), i * 100);
          const after = pool.worker("a");
          const isBack = before && after && !isServing(before) && isServing(after);
          if (isBack) expect(number).toBeGreaterThanOrEqual(newest ?? 0);
        }
      }),
    );
  });
});

describe("choice", () => {
  test("equals take turns, so that the first one does not get everything", () => {
    const pool = poolOf(["a", "b", "c"]);
    const order = Array.from({ length: 6 }, () => {
      const ticket = pool.take(need(), 0);
      if (typeof ticket === "string") throw new Error(ticket);
      pool.end(ticket, { kind: "neutral" }, 0);
      return ticket.workerId;
    });
    expect(order).toEqual(["a", "b", "c", "a", "b", "c"]);
  });

  test("who failed a request is given it again only when nobody else is there", () => {
    const pool = poolOf(["a", "b"]);
    expect(pool.take(need({ tried: new Set(["a"]) }), 0)).toMatchObject({ workerId: "b" });
    pool.remove("b");
    expect(pool.take(need({ tried: new Set(["a"]) }), 0)).toMatchObject({ workerId: "a" });
  });

  test("a suspect serves when no healthy one will do", () => {
    const pool = poolOf(["a", "b"]);
    pool.probed("a", 1, down(), 200);
    expect(stateOf(pool, "a")).toBe("suspect");
    for (let i = 0; i < policy.activeMax; i++) expect(pool.take(need(), 0)).toMatchObject({ workerId: "b" });
    expect(pool.take(need(), 0)).toMatchObject({ workerId: "a" });
  });

  test("a key stays with its worker however busy that is, and leaves one that is lost or stale or has other weights", () => {
    const pool = poolOf(["a", "b"]);
    const take = (over: Partial<Need> = {}) => pool.take(need({ stickyKey: "k", ...over }), 0) as Ticket;
    expect([take(), take(), take()].map(({ workerId }) => workerId)).toEqual(["a", "a", "a"]);
    pool.probed("b", 1, up("2"), 0);
    expect(take({ fence: { ...openFence, min: 2 } })).toMatchObject({ workerId: "b", sticky: "moved" });
    expect(take()).toMatchObject({ workerId: "b", sticky: "hit" });
    pool.probed("b", 1, down(true), 0);
    expect(take()).toMatchObject({ workerId: "a", sticky: "moved" });
  });

  test("keys are as many as the table takes, and are forgotten when they are not used", () => {
    const table = new StickyTable({ keysMax: 1_000, idleMs: 50 });
    for (let i = 0; i < 100_000; i++) table.pin(`k${i}`, "a", 0);
    expect(table.size).toBe(1_000);
    expect(table.workerOf("k99999", 49)).toBe("a");
    expect(table.workerOf("k99999", 50)).toBeNull();
    table.pin("new", "a", 60);
    expect(table.size).toBe(1);
  });
});

describe("health", () => {
  test("a failed check makes a suspect, one success makes it healthy and its count 0", () => {
    const pool = poolOf(["a"]);
    for (const failures of [1, 2]) {
      pool.probed("a", 1, down(), 100);
      expect(pool.worker("a")).toMatchObject({ state: "suspect", probeFailures: failures });
    }
    pool.probed("a", 1, up(), 200);
    expect(pool.worker("a")).toMatchObject({ state: "healthy", probeFailures: 0 });
  });

  test("the threshold of consecutive failures puts a worker into quarantine; a refused connection does so at once", () => {
    const pool = poolOf(["a", "b"]);
    for (let i = 0; i < 3; i++) pool.probed("a", 1, down(), i);
    pool.probed("b", 1, down(true), 0);
    expect([stateOf(pool, "a"), stateOf(pool, "b")]).toEqual(["quarantined", "quarantined"]);
    expect(pool.take(need(), 0)).toBe("none serves");
  });

  test("failures of a worker that starts count for nothing until the first wait is over", () => {
    const pool = new Pool(policy);
    pool.add("a", "http://a", 0);
    for (let i = 0; i < 50; i++) pool.probed("a", 1, down(true), 999);
    expect(stateOf(pool, "a")).toBe("starting");
    for (let i = 0; i < 3; i++) pool.probed("a", 1, down(true), 1_000);
    expect(stateOf(pool, "a")).toBe("quarantined");
  });

  describe("an engine that passes its checks and fails its requests", () => {
    const notB = need({ tried: new Set(["b"]) });
    const failed: RequestVerdict = { kind: "failed", refused: false, detail: "500" };
    const served: RequestVerdict = { kind: "served", version: "1" };
    /** A request at `a`, and the check that follows it. */
    const ask = (pool: Pool, nowMs: number, verdict: RequestVerdict = failed) => {
      const ticket = pool.take(notB, nowMs);
      if (typeof ticket === "string") return;
      pool.end(ticket, verdict, nowMs);
      pool.probed("a", 1, up(), nowMs);
    };

    test("is a suspect for many failures in one moment, and in quarantine when they last", () => {
      const pool = poolOf(["a", "b"]);
      for (let i = 0; i < 20; i++) ask(pool, 0);
      expect(pool.worker("a")).toMatchObject({ state: "suspect", why: "its requests fail: 500" });
      expect(pool.take(need(), 0)).toMatchObject({ workerId: "b" });
      ask(pool, 100);
      expect(stateOf(pool, "a")).toBe("quarantined");
    });

    test("comes back after an interval, on trial: one more failure takes it out of service for twice as long, up to 32 intervals", () => {
      const pool = poolOf(["a", "b"]);
      for (let i = 0; i < 4; i++) ask(pool, 40 * i);
      let backAtMs = 120;
      for (const intervals of [1, 2, 4, 8, 16, 32, 32]) {
        backAtMs += 100 * intervals;
        pool.probed("a", 1, up(), backAtMs - 1);
        expect(stateOf(pool, "a"), `${intervals} intervals`).toBe("quarantined");
        pool.probed("a", 1, up(), backAtMs);
        expect(stateOf(pool, "a"), `${intervals} intervals`).toBe("healthy");
        ask(pool, backAtMs);
      }
    });

    test("is trusted again when it has answered a request", () => {
      const pool = poolOf(["a", "b"]);
      for (let i = 0; i < 4; i++) ask(pool, 40 * i);
      pool.probed("a", 1, up(), 220);
      ask(pool, 220, served);
      for (const nowMs of [300, 301]) ask(pool, nowMs);
      expect(pool.worker("a")).toMatchObject({ state: "healthy", requestFailures: 2, holdMs: 0 });
    });

    test("is free at once when another process has taken its address", () => {
      const pool = poolOf(["a", "b"]);
      pool.probed("a", 1, up("1", "x"), 0);
      for (let i = 0; i < 4; i++) {
        const ticket = pool.take(notB, 40 * i) as Ticket;
        pool.end(ticket, failed, 40 * i);
      }
      pool.probed("a", 1, up("1", "x"), 121);
      expect(stateOf(pool, "a")).toBe("quarantined");
      pool.probed("a", 1, up("1", "y"), 122);
      expect(pool.worker("a")).toMatchObject({ state: "healthy", requestFailures: 0, life: 2 });
    });
  });

  test("another process behind the address is another life: what the earlier one still says changes nothing", () => {
    const pool = poolOf(["a", "b"]);
    const late = pool.take(need(), 0) as Ticket;
    pool.probed("a", 1, up("1", "x"), 0);
    pool.probed("a", 1, up("1", "y"), 0);
    expect(pool.worker("a")).toMatchObject({ life: 2, state: "healthy" });
    pool.end(late, { kind: "failed", refused: true, detail: "reset" }, 0);
    expect(pool.probed("a", 1, down(true), 0)).toBeNull();
    expect(pool.worker("a")).toMatchObject({ life: 2, state: "healthy", active: 0 });
  });

  test("labels have no order: a lost worker comes back with the label that the others have", () => {
    const pool = poolOf(["a", "b"], "step-9");
    pool.probed("a", 1, down(true), 0);
    pool.probed("a", 1, up("step-8"), 0);
    expect(stateOf(pool, "a")).toBe("stale");
    pool.probed("a", 1, up("step-9"), 0);
    expect(stateOf(pool, "a")).toBe("healthy");
  });

  test("when all weights went back on purpose, somebody says so, and the workers serve", () => {
    const pool = poolOf(["a"], "9");
    pool.probed("a", 1, up("4"), 0);
    expect(stateOf(pool, "a")).toBe("stale");
    pool.setCurrent("4");
    pool.probed("a", 2, up("4"), 0);
    expect(stateOf(pool, "a")).toBe("healthy");
  });
});

describe("retries", () => {
  const failed = { kind: "reset", attempts: 1, attemptsMax: 3, bytesLeft: false, canContinue: false } as const;
  const yes = (): boolean => true;

  test("bytes that have left are never sent twice", () => {
    expect(nextMove({ ...failed, takeFromBudget: yes })).toBe("retry");
    expect(nextMove({ ...failed, bytesLeft: true, takeFromBudget: yes })).toBe("give up: bytes left");
    expect(nextMove({ ...failed, bytesLeft: true, canContinue: true, takeFromBudget: yes })).toBe("continue");
    expect(nextMove({ ...failed, attempts: 3, takeFromBudget: yes })).toBe("give up: attempts");
    expect(nextMove({ ...failed, takeFromBudget: () => false })).toBe("give up: budget");
  });

  test("when everything fails, retries are a share of the requests and no multiple of them", () => {
    const budget = new RetryBudget({ attemptsMax: 4, share: 0.2, reserve: 10 }, 0);
    let retries = 0;
    for (let i = 0; i < 10_000; i++) {
      budget.deposit();
      while (budget.take(0)) retries++;
    }
    expect(retries).toBeLessThanOrEqual(2_010);
  });
});

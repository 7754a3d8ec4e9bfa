/** The node's table of replicas: what starts, what ends, what starts again and what does not. */
import { type NodeContext, type NodeEvent, nodeLogic } from "@muster/machines";
import type { RankOrder } from "@muster/protocol";
import { describe, expect, it } from "vitest";
import { restartDelayMs } from "../src/restart-rule.ts";

const capacity = { policy: null, rollout: null, checkpoint: null };

interface Said {
  readonly type: string;
  readonly kind?: string;
  readonly body?: object;
  readonly id?: string;
  readonly delayMs?: number;
}

interface Assigned {
  readonly id: string;
  readonly life: number;
  readonly devices?: readonly string[];
}

/** How a process ended. */
interface Exit {
  readonly code?: number;
  readonly signal?: string;
  readonly atMs?: number;
  readonly oom?: boolean;
}

/** A node that is ready, and what it says. */
class Node {
  #snapshot = nodeLogic.init({ host: "h", capacity, graceMs: 50 }).snapshot;

  constructor() {
    this.hear({ type: "keeper.cleaned", ended: [] });
  }

  hear(event: NodeEvent): readonly Said[] {
    const { snapshot, effects } = nodeLogic.step(this.#snapshot, event);
    this.#snapshot = snapshot;
    return effects as readonly Said[];
  }

  assign(revision: number, ...replicas: readonly Assigned[]): readonly Said[] {
    const each = replicas.map(({ devices, ...replica }) => {
      return { ...replica, role: "rollout" as const, ...(devices ? { devices: [...devices] } : {}) };
    });
    const body = { revision, replicas: each };
    return this.hear({ type: "node.assign", body });
  }

  exit(id: string, life: number, how: Exit = {}) {
    const { code = null, atMs = 0, oom = false } = how;
    const signal = code === null ? (how.signal ?? "SIGKILL") : null;
    return this.hear({ type: "keeper.exited", atMs, id, life, pid: 7, code, signal, oom });
  }

  get kept(): NodeContext["kept"] {
    return this.#snapshot.context.kept;
  }
}

const shown = (effects: readonly Said[]): string[] =>
  effects.map(({ type, kind, id, delayMs }) =>
    [kind ?? type, id, delayMs === undefined ? "" : `${delayMs} ms`].filter(Boolean).join(" "),
  );

describe("a node", () => {
  it("starts what is missing and acknowledges the assignment", () => {
    expect(shown(new Node().assign(1, { id: "r0", life: 1 }, { id: "r1", life: 4 }))).toEqual([
      "node.assigned",
      "keeper.start r0",
      "keeper.start r1",
    ]);
  });

  it("starts nothing twice, however often the assignment comes, and drops an older one", () => {
    const node = new Node();
    node.assign(2, { id: "r0", life: 1 });
    expect(shown(node.assign(2, { id: "r0", life: 1 }))).toEqual(["node.assigned"]);
    expect(shown(node.assign(1))).toEqual(["node.assign"]);
    expect(Object.keys(node.kept)).toEqual(["r0"]);
  });

  it("ends what is not in the assignment, at once when it does not leave in time", () => {
    const node = new Node();
    node.assign(1, { id: "r0", life: 1 });
    expect(shown(node.assign(2))).toEqual(["node.assigned", "keeper.end r0", "timer.start late-r0 50 ms"]);
    expect(node.hear({ type: "keeper.late", id: "r0" })).toEqual([{ type: "keeper.end", id: "r0", how: "kill" }]);
    expect(shown(node.exit("r0", 1))).toEqual(["process.exited", "timer.cancel late-r0"]);
    expect(node.kept).toEqual({});
  });

  it("starts again what died, later each time", () => {
    const node = new Node();
    node.assign(1, { id: "r0", life: 1 });
    const pauses = [1, 2, 3, 4, 5].map((life) => {
      const pause = node.exit("r0", life).find(({ type }) => type === "timer.start")?.delayMs;
      expect(shown(node.hear({ type: "keeper.due", id: "r0" }))).toEqual(["keeper.start r0"]);
      return pause;
    });
    expect(pauses).toEqual([250, 1_000, 2_000, 4_000, 8_000]);
    expect(restartDelayMs(20)).toBe(60_000);
  });

  it("gives up what dies more than five times in ten minutes, and says so", () => {
    const node = new Node();
    node.assign(1, { id: "r0", life: 1 });
    for (const life of [1, 2, 3, 4, 5]) {
      node.exit("r0", life, { atMs: life * 1_000 });
      node.hear({ type: "keeper.due", id: "r0" });
    }
    const last = node.exit("r0", 6, { atMs: 9_000, code: 137, oom: true });
    expect(shown(last)).toEqual(["process.exited", "timer.cancel late-r0", "process.retired"]);
    expect(last.at(-1)?.body).toMatchObject({ deaths: 6, reason: expect.stringContaining("short of memory") });
    expect(last.at(-1)?.body).toMatchObject({ reason: expect.stringContaining("it ended 6 times in 10 minutes") });
    expect(node.hear({ type: "keeper.due", id: "r0" })).toEqual([expect.objectContaining({ type: "drop" })]);
  });

  it.each(["SIGKILL", "SIGTERM"])(
    "goes on for ever when it is ended by %s after good lives, and is given up when it is not let live",
    (signal) => {
      const node = new Node();
      node.assign(1, { id: "r0", life: 1 });
      let life = 1;
      const dies = (atMs: number) => {
        const said = shown(node.exit("r0", life, { atMs, signal }));
        node.hear({ type: "keeper.due", id: "r0" });
        life += 1;
        return said.includes("process.retired");
      };
      for (let kill = 1; kill <= 30; kill++) expect(dies(kill * 15_000)).toBe(false);
      const quick = Array.from({ length: 6 }, (_, i) => dies(450_000 + (i + 1) * 1_000));
      expect(quick).toEqual([false, false, false, false, false, true]);
    },
  );

  it("forgets deaths that are long ago", () => {
    const node = new Node();
    node.assign(1, { id: "r0", life: 1 });
    for (let life = 1; life <= 12; life++) {
      expect(shown(node.exit("r0", life, { atMs: life * 200_000 }))).not.toContain("process.retired");
      node.hear({ type: "keeper.due", id: "r0" });
    }
  });

  it("does not start what left by itself, until a higher life is asked for", () => {
    const node = new Node();
    node.assign(1, { id: "r0", life: 1 });
    expect(shown(node.exit("r0", 1, { code: 0 }))).toEqual(["process.exited", "timer.cancel late-r0"]);
    expect(shown(node.assign(2, { id: "r0", life: 1 }))).toEqual(["node.assigned"]);
    expect(shown(node.assign(3, { id: "r0", life: 2 }))).toEqual(["node.assigned", "keeper.start r0"]);
  });

  it("kills the process of a life that was evicted and starts the next one at once", () => {
    const node = new Node();
    node.assign(1, { id: "r0", life: 1 });
    expect(node.assign(2, { id: "r0", life: 2 }).at(-1)).toEqual({ type: "keeper.end", id: "r0", how: "kill" });
    expect(shown(node.exit("r0", 1))).toContain("timer.start due-r0 0 ms");
    expect(shown(node.hear({ type: "keeper.due", id: "r0" }))).toEqual(["keeper.start r0"]);
    expect(node.kept.r0?.life).toBe(2);
  });

  it("keeps a process that is newer than the life that is asked for", () => {
    const node = new Node();
    node.assign(1, { id: "r0", life: 1 });
    node.exit("r0", 1);
    node.hear({ type: "keeper.due", id: "r0" });
    expect(shown(node.assign(2, { id: "r0", life: 2 }))).toEqual(["node.assigned"]);
  });

  it("sends a signal once per command, and says when there is no process to send it to", () => {
    const node = new Node();
    const body = { commandId: "c1", id: "r0", signal: "SIGSTOP" };
    expect(shown(node.hear({ type: "node.signal", body }))).toEqual(["node.signalled"]);
    node.assign(1, { id: "r0", life: 1 });
    node.hear({ type: "keeper.started", id: "r0", life: 1, pid: 7 });
    expect(shown(node.hear({ type: "node.signal", body: { ...body, commandId: "c2" } }))).toEqual(["keeper.signal"]);
    expect(shown(node.hear({ type: "node.signal", body: { ...body, commandId: "c2" } }))).toEqual(["node.signal"]);
  });

  it("tells what an earlier life of it left before it says what it has room for", () => {
    const { snapshot } = nodeLogic.init({ host: "h", capacity, graceMs: 50 });
    const { effects } = nodeLogic.step(snapshot, { type: "keeper.cleaned", ended: [{ id: "r0", pid: 7 }] });
    expect(shown(effects as readonly Said[])).toEqual(["process.exited", "node.ready"]);
  });
});

describe("signs of a failure to come", () => {
  it("are told when they are of other kinds than before, not each time that they are seen", () => {
    const node = new Node();
    const see = (...signs: readonly (readonly ["gpu" | "heat", string])[]) =>
      node.hear({ type: "host.signs", signs: signs.map(([kind, detail]) => ({ kind, detail })) });
    expect(see()).toEqual([]);
    expect(see(["gpu", "1 error"])).toMatchObject([
      { kind: "node.signs", body: { signs: [{ kind: "gpu", detail: "1 error" }] } },
    ]);
    expect(see(["gpu", "2 errors"])).toEqual([]);
    expect(see(["gpu", "2 errors"], ["heat", "99 °C"])).toHaveLength(1);
    expect(see(["heat", "99 °C"], ["gpu", "2 errors"])).toEqual([]);
    expect(see()).toMatchObject([{ kind: "node.signs", body: { signs: [] } }]);
  });
});

describe("a node with devices", () => {
  const r0 = { id: "r0", life: 1, devices: ["0", "1"] };
  const r1 = { id: "r1", life: 1, devices: ["1", "2"] };

  it("starts a process on a device only when the one that had it has ended, however long that takes", () => {
    const node = new Node();
    expect(node.assign(1, r0)).toContainEqual(
      expect.objectContaining({ type: "keeper.start", id: "r0", devices: ["0", "1"] }),
    );
    expect(shown(node.assign(2, r1))).toEqual(["node.assigned", "keeper.end r0", "timer.start late-r0 50 ms"]);
    expect(node.kept.r1).toMatchObject({ state: "waiting", life: 0 });
    expect(shown(node.hear({ type: "keeper.late", id: "r0" }))).toEqual(["keeper.end r0"]);
    expect(shown(node.exit("r0", 1))).toEqual(["process.exited", "timer.cancel late-r0", "keeper.start r1"]);
    expect(node.kept.r1).toMatchObject({ state: "running", life: 1, held: ["1", "2"] });
  });

  it("lets one that waits go without a word, and starts at once what needs no device of others", () => {
    const node = new Node();
    node.assign(1, r0);
    expect(shown(node.assign(2, r1, { id: "r2", life: 1, devices: [] }))).toContain("keeper.start r2");
    node.assign(3);
    expect(node.kept.r1).toBeUndefined();
    expect(shown(node.exit("r0", 1))).toEqual(["process.exited", "timer.cancel late-r0"]);
  });

  it("ends a process on other devices than it should have, and starts it on those", () => {
    const node = new Node();
    node.assign(1, r0, { ...r1, devices: ["2"] });
    expect(shown(node.assign(2, { ...r0, devices: ["2"] }, { ...r1, devices: ["0"] }))).toEqual([
      "node.assigned",
      "keeper.end r0",
      "keeper.end r1",
    ]);
    node.exit("r0", 1);
    node.hear({ type: "keeper.due", id: "r0" });
    expect(node.kept.r0).toMatchObject({ state: "waiting" });
    expect(shown(node.exit("r1", 1))).toContain("keeper.start r0");
    expect(shown(node.hear({ type: "keeper.due", id: "r1" }))).toEqual(["keeper.start r1"]);
    expect([node.kept.r0?.held, node.kept.r1?.held]).toEqual([["2"], ["0"]]);
  });

  it("keeps the devices of a process through its restarts", () => {
    const node = new Node();
    node.assign(1, r0);
    node.exit("r0", 1);
    expect(node.hear({ type: "keeper.due", id: "r0" })).toMatchObject([{ type: "keeper.start", devices: ["0", "1"] }]);
  });
});

describe("a rank of a replica of several processes", () => {
  const rank = (patch: Partial<RankOrder> = {}): RankOrder => ({
    ...{ id: "rollout-0", role: "rollout", rank: 2, life: 1, isDue: true, size: 4, localRank: 0, localSize: 2 },
    ...{ nodeRank: 1, master: { address: "127.0.0.1", port: 29_500 } },
    ...patch,
  });
  const told = (node: Node, revision: number, ...ranks: RankOrder[]) =>
    shown(node.hear({ type: "node.assign", body: { revision, replicas: [], ranks } }));

  it("begins when it is due and not before, and is not begun again by its node", () => {
    const node = new Node();
    expect(told(node, 1, rank({ isDue: false }))).toEqual(["node.assigned"]);
    expect(told(node, 2, rank())).toEqual(["node.assigned", "keeper.start rollout-0.2"]);
    const ended = node.exit("rollout-0.2", 1);
    expect(shown(ended)).toEqual(["process.exited", "timer.cancel late-rollout-0.2"]);
    expect(ended[0]?.body).toMatchObject({ id: "rollout-0", rank: 2, life: 1 });
    expect(told(node, 3, rank())).toEqual(["node.assigned"]);
    expect(told(node, 4, rank({ life: 2 }))).toEqual(["node.assigned", "keeper.start rollout-0.2"]);
  });

  it("is killed when its life is over, and begins the next one only when it has ended and is due", () => {
    const node = new Node();
    told(node, 1, rank());
    expect(told(node, 2, rank({ life: 2, isDue: false }))).toEqual(["node.assigned", "keeper.end rollout-0.2"]);
    expect(shown(node.exit("rollout-0.2", 1))).not.toContain("keeper.start rollout-0.2");
    expect(told(node, 3, rank({ life: 2 }))).toContain("keeper.start rollout-0.2");
  });

  it("has a second to leave when its replica is gone from its node", () => {
    const node = new Node();
    told(node, 1, rank());
    expect(told(node, 2)).toEqual(["node.assigned", "keeper.end rollout-0.2", "timer.start late-rollout-0.2 50 ms"]);
  });
});

describe("an end of a process", () => {
  it("is told and changes nothing where it is of another life, of nobody, or of one that has no process", () => {
    const node = new Node();
    expect(shown(node.exit("r9", 1))).toEqual(["process.exited"]);
    node.assign(1, { id: "r0", life: 2 });
    const { kept } = node;
    expect(shown(node.exit("r0", 1))).toEqual(["process.exited"]);
    expect(node.kept).toEqual(kept);
    node.exit("r0", 2, { code: 0 });
    const left = node.kept;
    expect(shown(node.exit("r0", 2))).toEqual(["process.exited"]);
    expect(node.kept).toEqual(left);
  });

  it("says what it was, and neither memory nor words where there is nothing to say of them", () => {
    const node = new Node();
    const exit = { type: "keeper.exited", atMs: 0, id: "r0", life: 1, pid: 7, code: 3, signal: null } as const;
    const said = { id: "r0", host: "h", pid: 7, code: 3, signal: null, life: 1 };
    expect(node.hear({ ...exit, oom: false })[0]?.body).toStrictEqual(said);
    expect(node.hear({ ...exit, oom: true, words: "bye" })[0]?.body).toStrictEqual({
      ...said,
      oom: true,
      words: "bye",
    });
  });

  it("with code 0 is a leave, but not of a life that is replaced, nor with another code", () => {
    const replaced = new Node();
    replaced.assign(1, { id: "r0", life: 1 });
    replaced.assign(2, { id: "r0", life: 2 });
    expect(shown(replaced.exit("r0", 1, { code: 0 }))).toContain("timer.start due-r0 0 ms");
    const failed = new Node();
    failed.assign(1, { id: "r0", life: 1 });
    expect(shown(failed.exit("r0", 1, { code: 1 }))).toContain("timer.start due-r0 250 ms");
  });

  it("of one that is asked for again while it ends is followed by its next life, and of one that is not, by none", () => {
    const back = new Node();
    back.assign(1, { id: "r0", life: 1 });
    back.assign(2);
    back.assign(3, { id: "r0", life: 1 });
    expect(shown(back.exit("r0", 1, { code: 0 }))).toContain("timer.start due-r0 0 ms");
    const gone = new Node();
    gone.assign(1, { id: "r0", life: 1 });
    gone.assign(2, { id: "r0", life: 2 });
    expect(shown(gone.assign(3))).toEqual(["node.assigned"]);
    expect(shown(gone.exit("r0", 1))).toEqual(["process.exited", "timer.cancel late-r0"]);
    expect(gone.kept).toEqual({});
  });

  it("counts as a death where memory was short, however long the process lived, and where it ended by itself", () => {
    const dies = (how: Exit): boolean => {
      const node = new Node();
      node.assign(1, { id: "r0", life: 1 });
      let last: readonly string[] = [];
      for (let life = 1; life <= 6; life++) {
        last = shown(node.exit("r0", life, { ...how, atMs: life * 90_000 }));
        node.hear({ type: "keeper.due", id: "r0" });
      }
      return last.includes("process.retired");
    };
    expect([dies({}), dies({ oom: true }), dies({ code: 1 }), dies({ signal: "SIGSEGV" })]).toEqual([
      ...[false, true, true, true],
    ]);
  });

  it("after exactly ten seconds of life is nobody's fault, and a moment earlier it is", () => {
    const deathsAfter = (livedMs: number): number | undefined => {
      const node = new Node();
      node.assign(1, { id: "r0", life: 1 });
      node.exit("r0", 1, { atMs: 0 });
      node.hear({ type: "keeper.due", id: "r0" });
      node.exit("r0", 2, { atMs: restartDelayMs(1) + livedMs });
      return node.kept.r0?.deaths.length;
    };
    expect([deathsAfter(9_999), deathsAfter(10_000)]).toEqual([2, 0]);
  });
});

describe("what a node keeps", () => {
  it("takes the pid of a process that ends, and of none that has no process", () => {
    const node = new Node();
    const started = (life: number, port?: number) =>
      node.hear({ type: "keeper.started", id: "r0", life, pid: 7, ...(port ? { port } : {}) });
    expect(started(1)).toMatchObject([{ type: "drop", reason: "not running" }]);
    node.assign(1, { id: "r0", life: 1 });
    expect(started(1)[0]?.body).toStrictEqual({ id: "r0", host: "h", pid: 7, life: 1 });
    expect(started(1, 29_500)[0]?.body).toStrictEqual({ id: "r0", host: "h", pid: 7, life: 1, port: 29_500 });
    node.assign(2);
    expect(started(1)).toMatchObject([{ kind: "process.started" }]);
    const paused = new Node();
    paused.assign(1, { id: "r0", life: 1 });
    paused.exit("r0", 1);
    const late = paused.hear({ type: "keeper.started", id: "r0", life: 1, pid: 7 });
    expect(late).toMatchObject([{ type: "drop", reason: "not running" }]);
  });

  it("lets one go at once that pauses, and begins one again that was given up", () => {
    const node = new Node();
    node.assign(1, { id: "r0", life: 1 });
    node.exit("r0", 1);
    expect(shown(node.assign(2))).toEqual(["node.assigned", "timer.cancel due-r0"]);
    expect(node.kept).toEqual({});
    expect(node.hear({ type: "keeper.late", id: "r0" })).toMatchObject([{ type: "drop", reason: "not ending" }]);
    const retired = new Node();
    retired.assign(1, { id: "r0", life: 1 });
    for (let life = 1; life <= 6; life++) {
      retired.exit("r0", life, { atMs: life });
      retired.hear({ type: "keeper.due", id: "r0" });
    }
    expect(retired.kept.r0).toMatchObject({ state: "retired", life: 6 });
    expect(shown(retired.assign(2, { id: "r0", life: 7 }))).toEqual(["node.assigned", "keeper.start r0"]);
    expect(retired.kept.r0).toMatchObject({ state: "running", life: 7, deaths: [] });
  });

  it("goes on with one that pauses or waits, whatever life is asked for, and with that life", () => {
    const node = new Node();
    node.assign(1, { id: "r0", life: 1 });
    node.exit("r0", 1);
    expect(shown(node.assign(2, { id: "r0", life: 5 }))).toEqual(["node.assigned"]);
    expect(node.hear({ type: "keeper.due", id: "r0" })).toMatchObject([{ type: "keeper.start", life: 5 }]);
    const waiting = new Node();
    waiting.assign(1, { id: "r0", life: 1, devices: ["0"] });
    waiting.assign(2, { id: "r1", life: 1, devices: ["0"] });
    expect(shown(waiting.assign(3, { id: "r1", life: 4, devices: ["0"] }))).toEqual(["node.assigned"]);
    expect(waiting.exit("r0", 1).at(-1)).toMatchObject({ type: "keeper.start", id: "r1", life: 4 });
  });

  it("knows the last sixty-four commands again", () => {
    const node = new Node();
    const signal = (n: number) =>
      shown(node.hear({ type: "node.signal", body: { commandId: `c${n}`, id: "r0", signal: "SIGSTOP" } }));
    for (let n = 0; n < 64; n++) expect(signal(n)).toEqual(["node.signalled"]);
    expect(node.hear({ type: "node.signal", body: { commandId: "c0", id: "r0", signal: "SIGSTOP" } })).toMatchObject([
      { type: "drop", reason: "sent already" },
    ]);
    expect(signal(64)).toEqual(["node.signalled"]);
    expect([
      shown(node.hear({ type: "node.signal", body: { commandId: "c1", id: "r0", signal: "SIGSTOP" } })),
      signal(0),
    ]).toEqual([...[["node.signal"], ["node.signalled"]]]);
  });

  it("says why it gave a process up: a signal, a code or short memory, and its last words", () => {
    const reasonOf = (how: object): string | undefined => {
      const node = new Node();
      node.assign(1, { id: "r0", life: 1 });
      let said: readonly Said[] = [];
      for (let life = 1; life <= 6; life++) {
        const exit = { atMs: life, id: "r0", life, pid: 7, code: null, signal: null, oom: false };
        said = node.hear({ type: "keeper.exited", ...exit, ...how });
        node.hear({ type: "keeper.due", id: "r0" });
      }
      const body = said.at(-1)?.body as { reason?: string } | undefined;
      return body?.reason?.replace(/.*the last time with /, "");
    };
    expect([reasonOf({ code: 3 }), reasonOf({ signal: "SIGSEGV" }), reasonOf({ code: 137, oom: true })]).toEqual([
      ...["code 3", "SIGSEGV", "it was short of memory"],
    ]);
    expect(reasonOf({ code: 3, words: "no room" })).toBe("code 3: no room");
  });

  it("is ready once it is clean, says where its host is reached where it knows, and is over when it was stopped", () => {
    const waiting = nodeLogic.init({ host: "h", capacity, graceMs: 50 }).snapshot;
    const clean = (more: object) => nodeLogic.step(waiting, { type: "keeper.cleaned", ended: [], ...more });
    const { snapshot, effects } = clean({ address: "10.0.0.7" });
    expect(effects).toMatchObject([{ kind: "node.ready", body: { address: "10.0.0.7" } }]);
    expect(clean({}).effects[0]).not.toHaveProperty("body.address");
    const stopped = nodeLogic.step(snapshot, { type: "replica.stop", body: { reason: "so" } }).snapshot;
    expect([waiting.value, snapshot.value, stopped.value, stopped.status]).toEqual([
      "waiting",
      "keeping",
      "ended",
      "done",
    ]);
  });

  it("ends when it is stopped or fenced, each of its processes as well, and keeps nothing before it is clean", () => {
    for (const type of ["replica.stop", "replica.fenced"] as const) {
      const node = new Node();
      node.assign(1, { id: "r0", life: 1 });
      expect(shown(node.hear({ type, body: { reason: "so" } }))).toEqual([
        "keeper.end r0",
        "timer.start late-r0 50 ms",
      ]);
    }
    const fresh = nodeLogic.init({ host: "h", capacity, graceMs: 50 }).snapshot;
    const hear = (event: object) => nodeLogic.step(fresh, event as NodeEvent).effects;
    expect(hear({ type: "node.assign", body: { revision: 1, replicas: [] } })).toMatchObject([{ type: "drop" }]);
    expect(hear({ type: "keeper.due", id: "r0" })).toMatchObject([{ type: "drop", kind: "keeper.due" }]);
    expect(hear({ type: "host.signs", signs: [] })).toEqual([]);
    expect(hear({ type: "replica.registered" })).toEqual([{ type: "keeper.clean" }]);
    expect(new Node().hear({ type: "replica.registered" } as NodeEvent)).toEqual([]);
    expect(new Node().assign(0)).toMatchObject([{ kind: "node.assigned", body: { revision: 0 } }]);
  });
});

describe("a rank that goes", () => {
  const order = (patch: Partial<RankOrder> = {}): RankOrder => ({
    ...{ id: "r0", role: "rollout", rank: 1, life: 1, isDue: true, size: 2, localRank: 0, localSize: 1 },
    ...{ nodeRank: 1, master: { address: "127.0.0.1", port: 29_500 } },
    ...patch,
  });

  it("has one second to leave where a replica of one process has more", () => {
    let { snapshot } = nodeLogic.init({ host: "h", capacity, graceMs: 30_000 });
    const hear = (event: NodeEvent): readonly Said[] => {
      const step = nodeLogic.step(snapshot, event);
      snapshot = step.snapshot;
      return step.effects as readonly Said[];
    };
    hear({ type: "keeper.cleaned", ended: [] });
    const sole = { id: "r1", role: "rollout" as const, life: 1 };
    hear({ type: "node.assign", body: { revision: 1, replicas: [sole], ranks: [order()] } });
    const gone = shown(hear({ type: "node.assign", body: { revision: 2, replicas: [] } }));
    expect(gone).toContain("timer.start late-r0.1 1000 ms");
    expect(gone).toContain("timer.start late-r1 30000 ms");
  });

  it("is killed once when a later life is asked for, and kept where its life is the one", () => {
    const node = new Node();
    const told = (revision: number, patch: Partial<RankOrder>) =>
      shown(node.hear({ type: "node.assign", body: { revision, replicas: [], ranks: [order(patch)] } }));
    told(1, {});
    expect(told(2, { life: 1 })).toEqual(["node.assigned"]);
    expect(told(3, { life: 2 })).toEqual(["node.assigned", "keeper.end r0.1"]);
    expect(told(4, { life: 3 })).toEqual(["node.assigned"]);
    expect(node.exit("r0.1", 1).at(-1)).toMatchObject({ type: "keeper.start", life: 3 });
    expect(node.hear({ type: "keeper.started", id: "r0.1", life: 3, pid: 7 })[0]?.body).toMatchObject({
      id: "r0",
      rank: 1,
    });
  });

  it("comes back when it is wanted again while it ends", () => {
    const node = new Node();
    const body = { revision: 1, replicas: [], ranks: [order()] };
    node.hear({ type: "node.assign", body });
    node.hear({ type: "node.assign", body: { revision: 2, replicas: [] } });
    node.hear({ type: "node.assign", body: { ...body, revision: 3, ranks: [order({ life: 2 })] } });
    expect(node.exit("r0.1", 1).at(-1)).toMatchObject({ type: "keeper.start", id: "r0.1", life: 2 });
  });
});

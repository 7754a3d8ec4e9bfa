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

  it("kills the process of a life that was put out and starts the next one at once", () => {
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

import type { Clock } from "@muster/base";
import { describe, expect, it } from "vitest";
import { createProgress, type Progress } from "../../src/report/index.ts";
import type { Terminal } from "../../src/terminal/terminal.ts";

/** A clock that moves when told. */
class ManualClock implements Clock {
  private nowMs = 1000;
  private timers: { atMs: number; run: () => void }[] = [];

  now(): number {
    return this.nowMs;
  }

  after(delayMs: number, run: () => void): () => void {
    const timer = { atMs: this.nowMs + delayMs, run };
    this.timers.push(timer);
    return () => {
      this.timers = this.timers.filter((other) => other !== timer);
    };
  }

  get pending(): number {
    return this.timers.length;
  }

  advance(ms: number): void {
    const endMs = this.nowMs + ms;
    for (;;) {
      const next = this.timers.filter((timer) => timer.atMs <= endMs).sort((a, b) => a.atMs - b.atMs)[0];
      if (!next) break;
      this.timers = this.timers.filter((timer) => timer !== next);
      this.nowMs = next.atMs;
      next.run();
    }
    this.nowMs = endMs;
  }
}

interface Rig {
  readonly clock: ManualClock;
  readonly progress: Progress;
  readonly writes: string[];
  resize(): void;
}

function rig(isLive: boolean, columns: number | (() => number) = 120, hasColour = false): Rig {
  const clock = new ManualClock();
  const writes: string[] = [];
  let resized = (): void => {};
  const terminal: Terminal = {
    isLive,
    hasColour,
    columns: typeof columns === "function" ? columns : () => columns,
    rows: () => 24,
    write: (text) => void writes.push(text),
    onResize(listener) {
      resized = listener;
      return () => {
        resized = () => {};
      };
    },
  };
  const progress = createProgress({ terminal, clock, wallMs: () => noonMs });
  return { clock, writes, progress, resize: () => resized() };
}

const noonMs = new Date(2026, 0, 1, 12, 0, 7).getTime();

const alive = { policy: 2, rollout: 3, checkpoint: 1 };

/** Commits steps `from` … `to`, one each `stepMs`. */
function commit({ clock, progress }: Rig, range: { from: number; to: number; stepMs: number }): void {
  for (let step = range.from; step <= range.to; step++) {
    clock.advance(range.stepMs);
    progress.update({ steps: 250, step, reward: step / 250, tokens: 8000, weightVersion: step, alive });
  }
}

/** What a terminal shows after these writes: its finished lines and the line of the cursor. */
function screenOf(writes: readonly string[]): readonly string[] {
  const lines = [""];
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are the sequences it reads
  for (const token of writes.join("").match(/\u001b\[\?25[lh]|\u001b\[\d*[AJK]|\r|\n|[^\u001b\r\n]+/g) ?? []) {
    if (token === "\n") lines.push("");
    else if (token === "\r" || token.startsWith("\u001b")) continue;
    else lines[lines.length - 1] = token;
  }
  return lines;
}

describe("progress on a terminal", () => {
  it("shows steps, a bar, the mean reward of ten steps, the rest, replicas, speed and version", () => {
    const bench = rig(true);
    commit(bench, { from: 1, to: 125, stepMs: 200 });
    expect(screenOf(bench.writes)).toEqual([
      "step 125/250  ━━━━━━━━━━━━━━━───────────────  reward 0.482  25 s left  policy 2 rollout 3 checkpoint 1  40k tok/s  v125",
    ]);
  });

  it("redraws at most five times a second, and ends with the last state", () => {
    const bench = rig(true);
    commit(bench, { from: 1, to: 100, stepMs: 10 });
    const redraws = bench.writes.length;
    expect(redraws).toBeLessThanOrEqual(6);
    bench.clock.advance(1000);
    expect(bench.writes).toHaveLength(redraws + 1);
    expect(bench.writes.at(-1)).toContain("step 100/250");
  });

  it("never fills the last column, whatever the width, and drops the least important parts first", () => {
    for (let columns = 20; columns <= 160; columns += 7) {
      const bench = rig(true, () => columns);
      commit(bench, { from: 1, to: 30, stepMs: 200 });
      const [line = ""] = screenOf(bench.writes);
      expect(line.length).toBeLessThan(columns);
      expect(line).toMatch(/^step {2}30\/250/);
    }
    const narrow = rig(true, 60);
    commit(narrow, { from: 1, to: 30, stepMs: 200 });
    expect(screenOf(narrow.writes)[0]).toMatch(/reward 0\.102 {2}44 s left$/);
  });

  it("prints notes above the line, cleaned to one line", () => {
    const bench = rig(true);
    bench.progress.note("controller started");
    commit(bench, { from: 1, to: 1, stepMs: 200 });
    bench.progress.note("rollout-2 \u001b[2Jdied\nat once");
    expect(screenOf(bench.writes).slice(0, 2)).toEqual([
      "12:00:07  controller started",
      "12:00:07  rollout-2 died at once",
    ]);
    expect(screenOf(bench.writes)[2]).toMatch(/^step {3}1\/250/);
  });

  it("hides the cursor once and gives it back at the end, after which it is silent", () => {
    const bench = rig(true);
    commit(bench, { from: 1, to: 5, stepMs: 50 });
    bench.progress.end();
    bench.progress.end();
    bench.progress.note("late");
    bench.progress.update({ step: 6 });
    bench.clock.advance(60_000);
    const text = bench.writes.join("");
    expect(text.split("\u001b[?25l")).toHaveLength(2);
    expect(text.endsWith("\n\u001b[?25h")).toBe(true);
    expect(text).toContain("step   5/250");
    expect(text).not.toContain("late");
    expect(bench.clock.pending).toBe(0);
  });

  it("is drawn anew when the window changes, over the rows into which a narrower one has broken it", () => {
    let columns = 120;
    const bench = rig(true, () => columns);
    commit(bench, { from: 1, to: 30, stepMs: 200 });
    columns = 50;
    bench.resize();
    const [line = ""] = screenOf(bench.writes.slice(-1));
    // 118 characters are three rows of 50: two up, and everything below goes.
    expect(bench.writes.at(-1)?.startsWith("\r\u001b[2A\u001b[J")).toBe(true);
    expect(line).toMatch(/^step {2}30\/250/);
    expect(line.length).toBeLessThan(50);
    bench.progress.end();
    const count = bench.writes.length;
    bench.resize();
    expect(bench.writes).toHaveLength(count);
  });

  it("breaks long news between words, below where the first row begins, and paints it by its sign", () => {
    const bench = rig(true, 60, true);
    bench.progress.note("! policy-1 died: process ended with SIGKILL; training went on after 1.2 s; back after 2 s");
    bench.progress.note("  checkpoint of step 4 is durable");
    expect(bench.writes.join("").split("\n")).toEqual([
      "12:00:07  \u001b[31m! policy-1 died: process ended with SIGKILL;",
      "            training went on after 1.2 s; back after 2 s\u001b[0m",
      "12:00:07    checkpoint of step 4 is durable",
      "",
    ]);
  });

  it("shows what is being recovered from in the place of the bar, at 80 columns too", () => {
    const bench = rig(true, 80);
    commit(bench, { from: 1, to: 30, stepMs: 200 });
    bench.progress.update({ trouble: "! policy-1 died" });
    bench.clock.advance(1000);
    expect(screenOf(bench.writes)[0]).toMatch(/^step {2}30\/250 {2}! policy-1 died {2}reward 0\.102 {2}44 s left/);
    bench.progress.update({ trouble: null });
    bench.clock.advance(1000);
    expect(screenOf(bench.writes)[0]).toContain("━");
  });

  it("writes nothing at all when nothing happened", () => {
    const bench = rig(true);
    bench.progress.end();
    expect(bench.writes).toEqual([]);
  });

  it("measures speed from where a resumed run goes on", () => {
    const bench = rig(true);
    commit(bench, { from: 200, to: 210, stepMs: 1000 });
    expect(screenOf(bench.writes)[0]).toContain("40 s left");
  });
});

describe("progress elsewhere", () => {
  it("tells a job without rewards by the mean loss of its last steps", () => {
    const bench = rig(false);
    bench.progress.update({ steps: 2 });
    for (const step of [1, 2]) bench.progress.update({ step, loss: 3 - step, tokens: 1 });
    bench.progress.end();
    expect(bench.writes.at(-1)).toContain("step 2/2  loss 1.500");
  });

  it("prints a line for each tenth and no terminal sequences", () => {
    const bench = rig(false);
    commit(bench, { from: 1, to: 250, stepMs: 100 });
    bench.progress.end();
    expect(bench.writes).toHaveLength(11);
    expect(bench.writes[5]).toBe(
      "step 125/250  reward 0.482  13 s left  policy 2 rollout 3 checkpoint 1  80k tok/s  v125\n",
    );
    expect(bench.writes.at(-1)).toBe("step 250/250  reward 0.982  policy 2 rollout 3 checkpoint 1  80k tok/s  v250\n");
    expect(bench.writes.join("")).not.toContain("\u001b");
    expect(bench.clock.pending).toBe(0);
  });

  it("prints a line after 15 s without one, also when nothing moves", () => {
    const bench = rig(false);
    commit(bench, { from: 1, to: 2, stepMs: 100 });
    expect(bench.writes).toHaveLength(1);
    bench.clock.advance(15_000);
    expect(bench.writes).toHaveLength(2);
    bench.clock.advance(30_000);
    expect(bench.writes).toHaveLength(4);
  });

  it("prints notes as lines of their own", () => {
    const bench = rig(false);
    bench.progress.note("policy-1 \u001b[31mjoined");
    expect(bench.writes).toEqual(["12:00:07  policy-1 joined\n"]);
  });
});

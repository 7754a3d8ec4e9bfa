/** Files of a run grow as long as its job goes on, and keep within their bound: what is left says so, and what reads it accuses nobody. */
import { spawnSync } from "node:child_process";
import {
  appendFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { checkRun } from "@muster/check";
import { eventLine, openRunFolder } from "@muster/check/files";
import type { EventMessage } from "@muster/client";
import { embeddedEngines as engines } from "@muster/engine/embedded";
import type { Body } from "@muster/protocol";
import { loadJob } from "@muster/runtime/config";
import { manualClock } from "@muster/runtime/internal";
import { makeTempDirectory } from "@muster/testkit";
import { describe, expect, onTestFinished, test } from "vitest";
import { describeRun } from "../src/job/run-state.ts";
import { htmlReport, type RunRecord, summaryText } from "../src/report/index.ts";
import { DiskWatch } from "../src/run/disk-watch.ts";
import { EventFiles } from "../src/run/event-files.ts";
import type { GrowingOptions } from "../src/run/line-parts.ts";
import { MetricsFile } from "../src/run/metrics-file.ts";
import { readRecord } from "../src/run/read-record.ts";
import { createRecorder, type Recorder } from "../src/run/recorder.ts";
import { earlierChanges } from "../src/run/resumed.ts";

const { config } = loadJob({
  env: {},
  folder: "/",
  set: ["job.name=grown", "task.name=grown", "batch.groups_per_step=2", "batch.group_size=4", "batch.micro_shards=2"],
  describeTask: () => ({ vocab: 13, maxContext: 128 }),
  engines,
});
const startMs = Date.UTC(2026, 0, 1);
const said = <K extends EventMessage["kind"]>(kind: K, body: Body<K>, s: number) =>
  ({ kind, body, from: "controller", term: 1, sentAtMs: startMs + 1_000 * s }) as unknown as EventMessage;

const ledgerOf = (step: number) => ({ admitted: 8 * step, trained: 8 * step, aborted: 0, quarantined: 0, pending: 0 });
const committed = (step: number, lineage = 1, staleness = 0) =>
  said(
    "step.committed",
    {
      ...{ step, attempt: 1, epoch: 1, lineage, version: step, reward: step / 1e6, tokens: 100, staleness },
      sections: [{ name: "weights" as const, digest: `xxh3b:${step}`, bytes: 4 }],
      groups: [`${step}.0`, `${step}.1`],
      ledger: ledgerOf(step),
      ...{ members: 1, stepMs: 10, computeMs: 5, reduceMs: 1, gradNorm: 1, clipFraction: 0, loss: 0, approxKl: 0 },
      entropy: 1,
    },
    step,
  );
const began = said("job.started", { term: 1, steps: 1_000_000, seed: config.seed } as Body<"job.started">, 0);
const drained = (step: number) =>
  said(
    "command.done",
    { commandId: `c-${step}`, kind: "replica.drain", by: "operator", outcome: "done", detail: "" } as never,
    step,
  );
const settings = { lr: 0.25, stalenessMax: config.stalenessMax + 3 };
const changed = said("job.changed", { fromStep: 1, settings, before: {} } as Body<"job.changed">, 0);
const wentBack = said("alarm.raised", { alarm: "rollback", detail: "going back" } as Body<"alarm.raised">, 0);

interface Run extends GrowingOptions {
  readonly path: string;
  readonly dropped: string[];
}

async function openRun(bytesMax: number, attempt?: GrowingOptions["attempt"]): Promise<Run> {
  const { path, remove } = await makeTempDirectory();
  onTestFinished(remove);
  writeFileSync(join(path, "job.json"), JSON.stringify(config));
  writeFileSync(join(path, "config.txt"), "");
  const plainly = (_: string, write: () => void): boolean => {
    write();
    return true;
  };
  const dropped: string[] = [];
  return {
    path,
    directory: path,
    bytesMax,
    dropped,
    attempt: attempt ?? plainly,
    onDropped: (one) => dropped.push(one),
  };
}

/** Writes as `muster run` does. */
function follow(run: Run, events: Iterable<readonly [seq: number, event: EventMessage]>): Recorder {
  const [recorder, files, metrics] = [createRecorder(), new EventFiles(run), new MetricsFile(run)];
  let isFirst = true;
  for (const [seq, event] of events) {
    if (isFirst) recorder.beginAt(files.begin(event, seq));
    isFirst = false;
    const atMs = recorder.take(event);
    files.add(event, { seq, atMs });
    metrics.take(event, atMs);
  }
  return recorder;
}

/** A job from its first event on, with a command after each step. */
function* job(steps: number): Generator<readonly [number, EventMessage]> {
  yield [1, began];
  for (let step = 1; step <= steps; step++) {
    yield [2 * step, committed(step)];
    yield [2 * step + 1, drained(step)];
  }
}
/** One in which an operator allowed older samples at its beginning. */
function* changedJob(steps: number): Generator<readonly [number, EventMessage]> {
  yield [1, began];
  yield [2, changed];
  for (let step = 1; step <= steps; step++) yield [step + 2, committed(step, 1, config.stalenessMax + 3)];
}
const after = function* (seq: number, events: ReturnType<typeof job>) {
  for (const one of events) if (one[0] > seq) yield one;
};

const bytesOf = (run: Run, name: string): number =>
  readdirSync(run.path)
    .filter((file) => file.startsWith(`${name}.`))
    .reduce((sum, file) => sum + statSync(join(run.path, file)).size, 0);
const audit = (run: Run) => checkRun(openRunFolder(run.path), { journal: { missing: "not here" } });
const recordOf = (recorder: Recorder): RunRecord =>
  recorder.record({
    ...{ job: "grown", seed: 7, configText: "", samples: [], injections: [] },
    status: { state: "running", reason: "", steps: 1_000_000, written_at: "" },
  });

const bytesMax = 128 * 1024;

describe("of a job that writes far more than its bound", () => {
  test("each file keeps its newest lines within the bound, and says what is dropped", async () => {
    const run = await openRun(bytesMax);
    follow(run, job(1_500));
    for (const name of ["events", "audit", "metrics"]) {
      expect(bytesOf(run, name), name).toBeLessThanOrEqual(bytesMax);
      expect(bytesOf(run, name), name).toBeGreaterThan(bytesMax / 2);
    }
    expect(run.dropped[0]).toBe("events.1.jsonl is dropped: the run keeps its newest events (--history)");
    expect(describeRun(run.path, "grown")).toMatchObject({ state: "interrupted", step: 1_500 });
  });

  test("the check finds nothing, and says what it could not look at", async () => {
    const run = await openRun(bytesMax);
    follow(run, job(1_500));
    const { violations, unchecked, checked } = await audit(run);
    expect(violations).toEqual([]);
    expect(checked.commits).toBeGreaterThan(50);
    expect(checked.metrics).toBe(checked.commits);
    expect(unchecked).toContainEqual({
      what: expect.stringMatching(/^events 1 to \d{4}$/),
      why: expect.stringMatching(/^they were dropped: .*--history.* begins with event \d{4}$/),
    });
    expect(unchecked).toContainEqual({
      what: expect.stringMatching(/^metrics of steps/),
      why: "their events are gone",
    });
  });

  test("a line that is changed or lost is found all the same, in every part and between them", async () => {
    const run = await openRun(bytesMax);
    follow(run, job(1_500));
    const { events } = openRunFolder(run.path);
    const middle = join(run.path, events[3] ?? "");
    rmSync(middle);
    const { violations } = await audit(run);
    expect(violations[0]?.says).toMatch(/^events \d+ to \d+ are missing before this line/);
  });

  test("what an operator changed is known although the event is dropped: for the check, the report and a lost store", async () => {
    const run = await openRun(bytesMax);
    follow(run, changedJob(1_500));
    follow(run, changedJob(1_500));
    expect(readdirSync(run.path)).not.toContain("events.1.jsonl");
    const { violations, unchecked } = await audit(run);
    expect(violations).toEqual([]);
    expect(unchecked.filter(({ what }) => what.startsWith("the age of"))).toEqual([]);
    expect(readRecord(run.path, "grown").config_text.match(/optimizer.lr = 0.25/g)).toHaveLength(1);
    expect(await earlierChanges(run.path, join(run.path, "none"))).toEqual([{ settings }]);
  });

  test("without the file of changes a step on older samples is not checked for that, and not accused", async () => {
    const run = await openRun(bytesMax);
    follow(run, changedJob(1_500));
    rmSync(join(run.path, "changes.jsonl"));
    const { violations, unchecked } = await audit(run);
    expect(violations).toEqual([]);
    expect(unchecked).toContainEqual({
      what: expect.stringMatching(/^the age of what \d+ steps were trained on$/),
      why: expect.stringContaining("no changes.jsonl"),
    });
  });

  test("the report says where it begins, and nobody is accused", async () => {
    const run = await openRun(bytesMax);
    follow(run, job(1_500));
    const record = readRecord(run.path, "grown");
    const since = record.summary.since_step ?? 0;
    expect(since).toBeGreaterThan(1_000);
    expect(record.summary).toMatchObject({ steps: 1_500, lost: 0, doubled: 0, tokens_per_s: expect.closeTo(100, -1) });
    expect(record.steps.at(-1)?.at_ms).toBe(1_500_000);
    expect(summaryText(record.summary)).toContain(`is of step ${since.toLocaleString("en")} and later`);
    expect(htmlReport(record)).toContain(`begin with step ${since.toLocaleString("en")}: older events are gone`);
  });

  test("the record in memory does not grow, and has the first and the last steps, the tokens and the speed", () => {
    const recorder = createRecorder();
    recorder.take(began);
    for (let step = 1; step <= 25_000; step++) recorder.take(committed(step));
    const { steps, summary } = recordOf(recorder);
    expect(steps.length).toBeLessThanOrEqual(20_000);
    expect(steps.slice(0, 3).map(({ step }) => step)).toEqual([1, 2, 3]);
    expect(steps.slice(-5_000).map(({ step }) => step)).toEqual(Array.from({ length: 5_000 }, (_, i) => 20_001 + i));
    expect(steps.map(({ tokens_per_s }) => Math.round(tokens_per_s))).toEqual(steps.map(() => 100));
    expect(summary).toMatchObject({
      steps: 25_000,
      since_step: null,
      doubled: 0,
      tokens_per_s: expect.closeTo(100, 3),
    });
    expect(summary.reward_first).toBeCloseTo(5.5e-6);
  }, 30_000);
});

describe("a run that goes on", () => {
  test("writes again what the broker tells again, and what it no longer tells stays", async () => {
    const run = await openRun(bytesMax);
    follow(run, job(300));
    const events = openRunFolder(run.path).events.length;
    const recorder = follow(run, after(400, job(320)));
    const { violations, unchecked, checked } = await audit(run);
    expect({ violations, unchecked: unchecked.map(({ what }) => what) }).toEqual({
      violations: [],
      unchecked: [
        "the journal",
        expect.stringMatching(/^events 1 to/),
        "summary.json",
        expect.stringMatching(/^metrics of/),
      ],
    });
    expect(checked.commits).toBe(checked.metrics);
    expect(openRunFolder(run.path).events.length).toBeLessThanOrEqual(events + 1);
    expect(recordOf(recorder).steps.at(-1)).toMatchObject({ step: 320, at_ms: 320_000 });
    expect(recordOf(recorder).summary).toMatchObject({ since_step: 201, tokens_per_s: expect.closeTo(100, 0) });
  });

  test("with a longer history writes anew what the broker tells from further back, and nobody trained twice", async () => {
    const run = await openRun(bytesMax);
    follow(run, job(1_500));
    const recorder = follow({ ...run, bytesMax: 2 ** 30 }, job(1_500));
    const { violations, checked } = await audit(run);
    expect({ violations, ...checked }).toMatchObject({ violations: [], events: 3_001, metrics: 1_500 });
    expect(recordOf(recorder).summary).toMatchObject({ doubled: 0, since_step: null });
    expect(readRecord(run.path, "grown").summary).toMatchObject({ doubled: 0, since_step: null, wall_s: 1_500 });
  });

  test("whose newest part is empty goes on with the one before it", async () => {
    const run = await openRun(bytesMax);
    follow(run, job(40));
    renameSync(join(run.path, "events.jsonl"), join(run.path, "events.2.jsonl"));
    writeFileSync(join(run.path, "events.jsonl"), "");
    follow(run, job(50));
    const { violations, checked } = await audit(run);
    expect({ violations, ...checked }).toMatchObject({ violations: [], events: 101, metrics: 50 });
    expect(readRecord(run.path, "grown").summary.doubled).toBe(0);
  });

  test("and has not committed a step yet since its store was lost is not accused of its earlier metrics", async () => {
    const run = await openRun(bytesMax);
    follow(run, job(20));
    const lost = said("alarm.raised", { alarm: "store-lost", detail: "" } as Body<"alarm.raised">, 30);
    follow(run, [
      [1, lost],
      [2, { ...began, sentAtMs: startMs + 30_000 }],
    ]);
    const { violations, unchecked } = await audit(run);
    expect(violations).toEqual([]);
    expect(unchecked).toContainEqual({ what: "metrics of steps 1 to 20", why: "their events are gone" });
  });

  test("goes on with the time of its files where the broker has none of what they have", async () => {
    const run = await openRun(bytesMax);
    follow(run, job(20));
    const again = { ...began, sentAtMs: startMs + 800_000_000 };
    const next = { ...committed(21), sentAtMs: again.sentAtMs + 1_000 };
    const recorder = follow(run, [
      [42, again],
      [43, next],
    ]);
    expect(recordOf(recorder).steps).toMatchObject([{ step: 21, at_ms: 21_000, tokens_per_s: 100 }]);
    expect(recordOf(recorder).summary).toMatchObject({ since_step: 21, wall_s: 21 });
    const written = readFileSync(join(run.path, "metrics.jsonl"), "utf8").trimEnd().split("\n").at(-1) ?? "";
    expect(JSON.parse(written)).toMatchObject({ at_ms: 21_000, tokens_per_s: 100 });
  });

  test("keeps one line for each step that stands when the job goes back, also across parts", async () => {
    const run = await openRun(bytesMax);
    function* back(): Generator<readonly [number, EventMessage]> {
      yield* job(120);
      yield [242, wentBack];
      for (let step = 11; step <= 60; step++) yield [300 + step, committed(step, 2)];
    }
    follow(run, back());
    const { violations, checked } = await audit(run);
    expect(violations.filter(({ file }) => file.startsWith("metrics"))).toEqual([]);
    expect(checked.metrics).toBe(60);
  });
});

describe("a disk that is full", () => {
  test("for one line of a file is told it again with the next event, whatever file that one is for", async () => {
    const told: string[] = [];
    const watch = new DiskWatch({ folders: [], clock: manualClock(), onFull: (detail) => told.push(detail) });
    onTestFinished(() => watch.close());
    let isFull = true;
    const run = await openRun(bytesMax, (path, write) =>
      watch.attempt(path, () => {
        if (isFull && path.endsWith("audit.jsonl") && existsSync(path)) throw Object.assign(new Error("no room"), full);
        write();
      }),
    );
    const full = { code: "ENOSPC" };
    const files = new EventFiles(run);
    files.add(began, { seq: 1, atMs: 0 });
    files.add(drained(1), { seq: 2, atMs: 1 });
    expect(readFileSync(join(run.path, "audit.jsonl"), "utf8")).toBe("");
    isFull = false;
    files.add(wentBack, { seq: 3, atMs: 2 });
    expect(readFileSync(join(run.path, "audit.jsonl"), "utf8")).toContain('"seq":2,');
    expect(told).toHaveLength(1);
  });

  test("leaves no half line and no gap: what it did not take is written when there is room", async (context) => {
    const disk = await makeTempDirectory();
    const path = join(disk.path, "disk");
    mkdirSync(path);
    if (spawnSync("mount", ["-t", "tmpfs", "-o", "size=1m", "tmpfs", path]).status !== 0) {
      await disk.remove();
      return context.skip("no right to mount a file system");
    }
    onTestFinished(async () => {
      spawnSync("umount", [path]);
      await disk.remove();
    });
    const told: string[] = [];
    const watch = new DiskWatch({ folders: [], clock: manualClock(), onFull: (detail) => told.push(detail) });
    onTestFinished(() => watch.close());
    const run = { ...(await openRun(1024 ** 2, (at, write) => watch.attempt(at, write))), path, directory: path };
    writeFileSync(join(path, "job.json"), JSON.stringify(config));
    const fill = join(path, "fill");
    function* filling(): Generator<readonly [number, EventMessage]> {
      for (const one of job(200)) {
        if (one[0] === 20)
          expect(() => {
            for (;;) appendFileSync(fill, "x".repeat(512));
          }).toThrow("ENOSPC");
        if (one[0] === 120) rmSync(fill);
        yield one;
      }
    }
    follow(run, filling());
    expect(told).toContainEqual(expect.stringMatching(/events.jsonl can not be written: ENOSPC/));
    const { violations, checked } = await audit(run);
    expect({ violations, ...checked }).toMatchObject({ violations: [], events: 401, metrics: 200 });
  });
});

test("a part that an earlier version of Muster has begun, with no end to its row, is read as before", async () => {
  const run = await openRun(bytesMax);
  const fields = { seq: 4, at: "2026-01-02T12:00:00.000Z", from: "controller", term: 1, kind: "alarm.raised" };
  const { text } = eventLine({ ...fields, body: { alarm: "capacity", detail: "" }, at_ms: 3 }, "");
  writeFileSync(join(run.path, "events.1.jsonl"), `${text}\n`);
  writeFileSync(join(run.path, "events.jsonl"), `${text}\n`);
  const { violations, checked } = await audit(run);
  expect({ violations, events: checked.events }).toEqual({ violations: [], events: 1 });
});

/** What people see of a job on real terminals of 80 × 24: `muster run` while a sampler is killed, its samples as they come, a sampler that was started by hand, and what a closed window leaves. */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { pidOfActor, ptyMissing, startOnTerminal, waitFor, windowOf } from "@muster/testkit";
import { afterAll, beforeAll, expect, test } from "vitest";
import { jobFile, nothingLeft, openRuns, type Runs } from "./support/small-job.ts";

const size = { rows: 24, columns: 80 };
const job = "shown";

let runs: Runs;
beforeAll(async () => {
  runs = await openRuns();
});
afterAll(() => runs.close());

test("a kill is one line with its time, a sampler by hand says what it does, and no row is wider than the window", async ({
  skip,
}) => {
  skip(ptyMissing !== null, ptyMissing ?? "");
  const where = ["--runs", runs.path, "--job", job];
  const small = ["batch.groups_per_step=16", "evaluation.prompts=64"].flatMap((set) => ["--set", set]);
  const run = startOnTerminal(["run", jobFile, ...where, "--steps", "400", ...small], size, { NO_COLOR: "1" });
  const shown = (of = run): readonly string[] => windowOf(of.output(), size);
  const until = (what: string, isSo: () => unknown) =>
    waitFor(isSo, { what, timeoutMs: 60_000, detail: () => shown().slice(-12) });
  try {
    await until("some steps", () => /step +[2-9]\/400/.test(shown().at(-1) ?? ""));
    process.kill(pidOfActor({ runs: runs.path, job, id: "rollout-1" }), "SIGKILL");
    const line = await until("the recovery", () => shown().find((each) => each.includes("! rollout-1 died:")));
    expect(line).toMatch(/^\d\d:\d\d:\d\d {2}! rollout-1 died: process ended with SIGKILL/);
    const isOfIt = (each: string): boolean =>
      /^\d\d:\d\d:\d\d .*(rollout-1 |go to others|go on at|left|joined)/.test(each);
    const rowsOf = (text: readonly string[]) => text.slice(text.indexOf(line as string)).filter(isOfIt);
    expect(rowsOf(shown())).toEqual([line]);
    const samples = await runs.muster("samples", "--follow", "--json", "--job", job);
    const steps = (): ReadonlySet<number> => new Set(samples.lines.map((each) => JSON.parse(each).step));
    const known = await until("samples of the steps so far", () => steps().size > 0 && Math.max(...steps()));
    await until("samples of later steps as they are committed", () => Math.max(...steps()) > (known as number) + 2);

    const sampler = startOnTerminal(["rollout", "--id", "by-hand", ...where], size);
    await until("work by hand", () => /by-hand .* v\d+ .*[1-9]\d* groups/.test(shown(sampler).at(-1) ?? ""));
    sampler.resize({ rows: 24, columns: 40 });
    sampler.type("\u0003");
    expect(await sampler.ended).toBe(0);
    expect(sampler.output()).toContain("\u001b[32m+ joined");
    expect(sampler.output()).not.toContain('{"level"');
    const log = readFileSync(join(runs.path, job, "logs", "by-hand.log"), "utf8");
    expect(JSON.parse(log.split("\n")[0] ?? "")).toMatchObject({ role: "rollout", replica: "by-hand" });

    run.type("\u0003");
    expect(await run.ended).toBe(130);
    // It ends with the run, having told each sample once.
    expect((await samples.exited).code).toBe(0);
    const told = samples.lines.map((each) => JSON.parse(each)).map(({ group, sample }) => `${group}/${sample}`);
    expect(new Set(told).size).toBe(told.length);

    const rows = run.output().split(/[\r\n]+/);
    expect(rows.some((row) => row.startsWith("  ledger  "))).toBe(true);
    // What is to be pasted stays in one piece.
    const isWhole = (row: string): boolean => /report: |join it with|go on with|\/\S{30}/.test(row);
    // biome-ignore lint/suspicious/noControlCharactersInRegex: sequences take no room
    const shownRows = rows.map((row) => row.replaceAll(/\u001b\[[?\d]*\w/g, ""));
    // The terminal itself writes what is typed.
    const plain = shownRows.map((row) => row.replace("^C", ""));
    expect(plain.filter((row) => row.length >= size.columns && !isWhole(row))).toEqual([]);
    expect(run.output()).not.toContain("\u001b[31m");
  } finally {
    run.kill();
  }
}, 120_000);

test("a window that is closed ends the run in order: replicas leave, and its report says how it goes on", async ({
  skip,
}) => {
  skip(ptyMissing !== null, ptyMissing ?? "");
  const where = ["--runs", runs.path, "--job", "closed"];
  const small = ["batch.groups_per_step=16", "evaluation.prompts=64"].flatMap((set) => ["--set", set]);
  const run = startOnTerminal(["run", jobFile, ...where, "--steps", "400", ...small], size, { NO_COLOR: "1" });
  try {
    await waitFor(() => /step +[2-9]\/400/.test(run.output()), {
      what: "some steps",
      timeoutMs: 60_000,
      detail: () => windowOf(run.output(), size).slice(-12),
    });
    run.hangUp();
    expect(await run.ended).toBe(130);
    await nothingLeft(join(runs.path, "closed"));
    expect(existsSync(join(runs.path, "closed", "run.pid"))).toBe(false);
    const log = readFileSync(join(runs.path, "closed", "logs", "rollout-0.log"), "utf8");
    expect(log).toContain('"outcome":"left"');
  } finally {
    run.kill();
  }
}, 120_000);

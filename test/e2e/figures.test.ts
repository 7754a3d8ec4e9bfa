/**
 * What people who train look at is one set of figures: the events of a run, `metrics.jsonl`, the metrics page, the report, `muster watch` and the file for
 * TensorBoard say the same of each step; and they are the same whoever computed, and whoever died.
 */
import { spawnSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { type FigureName, figureMetricOf, figureNameOf, stepFigures } from "@muster/protocol";
import { type JobEvent, type JobRun, readEventFile, waitFor } from "@muster/testkit";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { openRuns, type Runs } from "./support/small-job.ts";

interface SampleLine {
  readonly step: number;
  readonly group: string;
  readonly sample: number;
  readonly replica: string;
  readonly prompt: string;
  readonly answer: string | null;
  readonly completion: string;
  readonly reward: number | null;
  readonly status: string;
  readonly tokens: number;
}

type Committed = JobEvent<"step.committed">;

const steps = 30;
let runs: Runs;
let run: JobRun;
/** The metrics page at some step, as a scraper read it. */
let page = "";

/** Prints the scalars of a folder as the reader of TensorBoard has them: tag to pairs of step and value. */
const readByTensorBoard = `
import json, sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
events = EventAccumulator(sys.argv[1], size_guidance={"scalars": 0}).Reload()
print(json.dumps({tag: [[one.step, one.value] for one in events.Scalars(tag)] for tag in events.Tags()["scalars"]}))
`;

const read = (name: string): string => readFileSync(join(run.directory, name), "utf8");

beforeAll(async () => {
  runs = await openRuns();
  const two = [
    "--policy",
    "2",
    "--rollout",
    "2",
    "--set",
    "init_replicas.policy=2",
    "--set",
    "init_replicas.rollout=2",
  ];
  run = await runs.start("seen", "--steps", String(steps), "--metrics-port", "0", ...two);
  const log = () => /"port":(\d+).*metrics are served/.exec(read("logs/controller.log"))?.[1];
  await run.waitForEvent("job.started");
  const port = await waitFor(() => log() ?? null, { what: "the port of the metrics page", timeoutMs: 20_000 });
  await waitFor(
    async () => {
      page = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text();
      return /^muster_train_step \d+$/m.test(page);
    },
    { what: "a committed step on the metrics page", timeoutMs: 20_000 },
  );
  await run.ended();
}, 60_000);
afterAll(() => runs.close());

const commits = (of: JobRun = run): readonly Committed[] => of.events("step.committed");
const lines = () =>
  read("metrics.jsonl")
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line) as Record<string, number | null | object>);
const shown = (value: number): string => String(Number(value.toPrecision(3)));

const samplesOf = (of: JobRun) =>
  readFileSync(join(of.directory, "samples.jsonl"), "utf8")
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line) as SampleLine)
    .sort((a, b) => a.step - b.step || a.sample - b.sample);

describe("the samples of a step", () => {
  test("are the first responses to its first prompt, and what they were rewarded with", () => {
    const samples = samplesOf(run);
    expect(samples.map(({ group, sample }) => [group, sample])).toEqual(
      commits().flatMap(({ step }) => [0, 1].map((sample) => [`${step}.0`, sample])),
    );
    // The last token of a response ends it, and has a character, too.
    for (const { prompt, answer, completion, reward, status, tokens } of samples) {
      expect(prompt).not.toBe("");
      expect(tokens).toBeGreaterThan(0);
      if (status === "completed")
        expect([completion, reward === 1]).toEqual([completion, completion.slice(0, -1) === answer]);
    }
    const report = read("report.html");
    expect(report).toContain(`step ${steps}, group ${steps}.0, response 0`);
    expect(report).toContain("step 1, group 1.0, response 0");
  });

  test("are shown by muster samples, and the report is made anew by muster report", async () => {
    const [of7, newest, none, report] = await Promise.all([
      runs.muster("samples", "--job", "seen", "--step", "7", "--json"),
      runs.muster("samples", "--job", "seen", "--limit", "1", "--follow"),
      runs.muster("samples", "--job", "seen", "--step", "99"),
      runs.muster("report", "seen", "--out", join(runs.path, "again.html")),
    ]);
    await Promise.all([of7, newest, none, report].map((each) => each?.exited));
    const json = (of7?.lines ?? []).map((line) => JSON.parse(line) as SampleLine);
    expect(json).toEqual(samplesOf(run).filter(({ step }) => step === 7));
    const last = samplesOf(run).at(-1) as SampleLine;
    const text = newest?.lines.join("\n") ?? "";
    expect(text).toContain(`step ${steps}  group ${steps}.0  response 1`);
    expect(text).toContain(`prompt    ${last.prompt}`);
    expect(none?.lines.join("\n")).toContain("no samples of step 99 of job seen");
    const timeless = (page: string): string => page.replaceAll(/Written [^<]*/g, "");
    expect(timeless(readFileSync(join(runs.path, "again.html"), "utf8"))).toBe(timeless(read("report.html")));
  });
});

/** All that each step of a job without a reference policy has: of a batch that teaches nothing, no log-probabilities are compared. */
const notAlways: readonly string[] = ["klReference", "heldOutLoss", "logprobGap", "logprobGapMax"];
const known = stepFigures.filter(({ field }) => !notAlways.includes(field));

describe("the figures of a step", () => {
  test("are all there, and mean what they say", () => {
    expect(commits()).toHaveLength(steps);
    for (const body of commits()) {
      for (const { field } of known) expect([field, body[field]]).toEqual([field, expect.any(Number)]);
      expect(body.held?.map(({ id }) => id).sort()).toEqual(["policy-0", "policy-1", "rollout-0", "rollout-1"]);
      expect(body.lengthMean! * 128).toBeCloseTo(body.tokens, 6);
      expect(body.lengthMax!).toBeGreaterThanOrEqual(body.lengthMean!);
      expect(body.rewardSpread!).toBeLessThanOrEqual((body.rewardMost! - body.rewardLeast!) / 2 + 1e-9);
      expect(body.approxKl).toBeGreaterThanOrEqual(0);
      // Samplers draw with the weights that are trained, to the last bit, while approximate KL has the updates of the step in it.
      expect(body.staleness).toBe(0);
      expect([body.logprobGap ?? 0, body.logprobGapMax ?? 0]).toEqual([0, 0]);
      expect(body).not.toHaveProperty("klReference");
    }
    expect(commits().some(({ logprobGap }) => logprobGap === 0)).toBe(true);
    expect(commits().map(({ lr }) => lr)[0]).toBeLessThan(commits()[6]!.lr!);
  });

  test("are those of metrics.jsonl", () => {
    expect(lines()).toHaveLength(steps);
    for (const [i, line] of lines().entries()) {
      const body = commits()[i] as Committed;
      for (const { field } of known) expect([field, line[figureNameOf(field)]]).toEqual([field, body[field]]);
      expect(line.held).toEqual(Object.fromEntries(body.held!.map(({ id, version }) => [id, version])));
    }
  });

  test("are those of the metrics page", () => {
    const value = (name: string) => Number(new RegExp(`^${name} (\\S+)$`, "m").exec(page)?.[1] ?? "nothing");
    const body = commits().find(({ step }) => step === value("muster_train_step")) as Committed;
    for (const { field } of known) expect([field, value(figureMetricOf(field))]).toEqual([field, body[field]]);
    for (const { id, version } of body.held!)
      expect([id, value(`muster_replica_version\\{replica="${id}"\\}`)]).toEqual([id, version ?? -1]);
  });

  test("are those of the report, at each step that is pointed at", () => {
    const report = read("report.html");
    const names: readonly (readonly [FigureName, string])[] = [
      ["loss", "loss"],
      ["approxKl", "KL"],
      ["clipFraction", "clipped"],
      ["entropy", "entropy"],
      ["gradNorm", "gradient norm"],
      ["lr", "learning rate"],
      ["rewardSpread", "spread"],
      ["evenGroups", "without advantage"],
      ["truncated", "truncated"],
      ["staleness", "staleness"],
    ];
    for (const body of commits())
      for (const [field, name] of names)
        expect(report).toContain(`step ${body.step}: ${name} ${shown(body[field] as number)}<`);
    for (const { step, lengthMean, lengthMax } of commits())
      expect(report).toContain(`step ${step}: longest ${shown(lengthMax!)}, mean ${shown(lengthMean!)}<`);
    for (const { id, version } of commits().at(-1)!.held!) expect(report).toContain(`<b>${id}</b> ${version ?? "–"}`);
  });

  test("are those of muster watch", async () => {
    const watch = await runs.muster("watch", "--job", "seen", "--from-start");
    await watch.exited;
    const text = watch.lines.join("\n");
    for (const { step, loss, approxKl, gradNorm, lr, lengthMean, held } of commits()) {
      const said = text
        .slice(text.indexOf(`  step ${step}  `))
        .split("\n")
        .slice(0, 4)
        .join("\n");
      for (const part of [
        `loss ${shown(loss)} `,
        `kl ${shown(approxKl!)} `,
        `gradient ${shown(gradNorm)} `,
        `lr ${shown(lr!)}`,
      ])
        expect(said).toContain(part);
      expect(said).toContain(`length ${shown(lengthMean!)},`);
      expect(said).toContain(`v${held![0]!.version}: `);
    }
  });

  test("are those of the file for TensorBoard", () => {
    const [name, ...more] = readdirSync(join(run.directory, "tensorboard"));
    expect(more).toEqual([]);
    const { scalars } = readEventFile(readFileSync(join(run.directory, "tensorboard", name!)));
    for (const body of commits())
      for (const { field, family } of known) {
        const found = scalars.filter(
          ({ tag, step }) => tag === `${family}/${figureNameOf(field)}` && step === body.step,
        );
        expect([field, found.map(({ value }) => value)]).toEqual([field, [Math.fround(body[field]!)]]);
      }
  });

  test("are read from that file by TensorBoard itself", ({ skip }) => {
    const folder = join(run.directory, "tensorboard");
    const { status, stdout, stderr } = spawnSync("python3", ["-c", readByTensorBoard, folder], { encoding: "utf8" });
    if (stderr.includes("No module named 'tensorboard'") || status === null)
      return skip("no python3 with tensorboard: its own reader does not read the file");
    expect({ status, stderr: status === 0 ? "" : stderr }).toEqual({ status: 0, stderr: "" });
    const read = JSON.parse(stdout) as Record<string, readonly (readonly [number, number])[]>;
    for (const { field, family } of known) {
      const tag = `${family}/${figureNameOf(field)}`;
      expect([tag, read[tag]]).toEqual([tag, commits().map((body) => [body.step, Math.fround(body[field]!)])]);
    }
  });

  test("are the same, to the last bit, when others compute and some of them die", async () => {
    const other = await runs.start("struck", "--steps", String(steps), "--policy", "3", "--rollout", "1");
    await other.waitForEvent("step.committed", ({ step }) => step >= 4);
    for (const id of ["policy-1", "rollout-0"]) process.kill(other.pidOf(id), "SIGKILL");
    await other.ended();
    const timed = new Set(["trainTokensPerS", "sampleTokensPerS", "stepMs", "computeMs", "reduceMs"]);
    const figures = (of: JobRun) =>
      commits(of).map((body) => stepFigures.flatMap(({ field }) => (timed.has(field) ? [] : [[field, body[field]]])));
    expect(figures(other)).toEqual(figures(run));
    const samples = (of: JobRun) => samplesOf(of).map(({ replica, ...sample }) => sample);
    expect(samples(other)).toEqual(samples(run));
  }, 60_000);
});

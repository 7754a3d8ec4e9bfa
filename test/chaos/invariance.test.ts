/**
 * A real job under a storm of faults, and the same job in peace. It takes three to four minutes: at least thirty faults of many kinds two
 * seconds apart, time to recover from the last, and as many steps again without faults.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { makeTempDirectory, processesNaming, spawnMuster, type TempDirectory, waitFor } from "@muster/testkit";
import { afterAll, beforeAll, expect, it } from "vitest";

/** The keys of the result that the tests look at; the whole of it is printed when something is wrong. */
interface Result {
  readonly ok: boolean;
  readonly faults_found: readonly string[];
  readonly planned: Readonly<Record<string, number>>;
  readonly faults: Readonly<Record<string, number>>;
  readonly faults_total: number;
  readonly recovered: number;
  readonly harmless: Readonly<Record<string, Readonly<Record<string, number>>>>;
  readonly unrecovered: readonly string[];
  readonly incidents: { readonly total: number; readonly open: readonly string[] };
  readonly recovery: Readonly<Record<string, Readonly<Record<string, number>>>>;
  readonly ettr: number;
  readonly aims: readonly unknown[];
  readonly lost: number;
  readonly doubled: number;
  readonly replicas_bitwise_equal: boolean;
  readonly weights_hash: string;
  readonly hash_of_quiet_run: string;
  readonly first_difference: number | null;
  readonly violations: readonly string[];
  readonly steps: number;
  readonly journal: { readonly records: number; readonly terms: number };
}

/** Smaller steps than those of the example, so that a minute holds many. */
const small = [
  "batch.groups_per_step=16",
  "evaluation.prompts=64",
  "checkpoint.every_steps=10",
  "optimizer.lr=0.0003",
].flatMap((one) => ["--set", one]);
const seed = Number(process.env.MUSTER_CHAOS_SEED ?? Date.now() % 2 ** 31);
const minutes = Number(process.env.MUSTER_CHAOS_MINUTES ?? 1.4);
/** Any seed plans more; a fault that finds nobody to hit is not counted. */
const faultsMin = Math.floor((30 / 1.4) * minutes);

/** Times depend on the machine: within this a job went on at all. How fast it did is printed by `npm run test:soak`. */
const wentOnMs = 180_000;

const kindsIn = (counts: Result["faults"]) =>
  [...new Set(Object.keys(counts).map((name) => name.split(".")[0]))].sort();
const sumOf = (counts: Result["faults"]) => Object.values(counts).reduce((sum, count) => sum + count, 0);

let runs: TempDirectory;
beforeAll(async () => {
  runs = await makeTempDirectory();
});
afterAll(async () => {
  for (const { pid } of processesNaming(runs.path)) process.kill(pid, "SIGKILL");
  await runs.remove();
});

/** Runs `muster chaos` to its end. @returns Its one line of JSON. */
async function chaos(...args: string[]): Promise<Result> {
  const run = await spawnMuster(["chaos", "--runs", runs.path, "--json", "--quiet", ...small, ...args]);
  const { code, signal } = await run.exited;
  const line = run.lines.findLast((one) => one.startsWith("{"));
  if (line === undefined)
    throw new Error(`muster chaos ended with ${signal ?? code}: ${run.lines.slice(-8).join("\n")}`);
  const result = JSON.parse(line) as Result;
  if ((code === 0) !== result.ok) throw new Error(`exit code ${code} of a run that is ${line}`);
  return result;
}

it(
  `training is the same whatever is killed, frozen and cut (seed ${seed})`,
  async () => {
    const result = await chaos("--seed", String(seed), "--minutes", String(minutes), "--job", "invariant");
    expect(result, JSON.stringify(result)).toMatchObject({
      faults_found: [],
      lost: 0,
      doubled: 0,
      replicas_bitwise_equal: true,
      first_difference: null,
      violations: [],
      ok: true,
    });
    expect(result.weights_hash).toBe(result.hash_of_quiet_run);
    expect(result.weights_hash).toMatch(/^xxh3b:[0-9a-f]{16}$/);
    expect(result.faults_total).toBeGreaterThanOrEqual(faultsMin);
    expect(kindsIn(result.faults).length).toBeGreaterThanOrEqual(5);
    expect(Object.keys(result.faults)).toEqual(expect.arrayContaining(["kill.policy", "kill.rollout"]));
    expectAccounted(result);
    // The job may have gone back just before it was stopped; the quiet run does all steps that were ever committed.
    const { steps } = JSON.parse(readFileSync(join(runs.path, "invariant", "summary.json"), "utf8"));
    expect(steps).toBeGreaterThanOrEqual(10);
    expect(saidOf("invariant", steps)).toEqual(saidOf("invariant-quiet", steps));
    expect(saidOf("invariant", steps).standing.map(({ step }) => step)).toEqual(
      Array.from({ length: steps }, (_, i) => i + 1),
    );
    expect(result.steps).toBeGreaterThan(2);
    expect(result.journal.records).toBeGreaterThan(result.steps);
  },
  (minutes * 4 + 5) * 60_000,
);

/** What a run says of its training, up to a step: its first rewards, and each step that stands. Times and incidents are its own. */
function saidOf(job: string, steps: number) {
  const read = (name: string) => readFileSync(join(runs.path, job, name), "utf8").trim();
  const { reward_first, eval_first } = JSON.parse(read("summary.json"));
  const lines = read("metrics.jsonl").split("\n").slice(0, steps);
  const standing = lines.map((line) => {
    const { step, version, reward, tokens, staleness } = JSON.parse(line);
    return { step, version, reward, tokens, staleness };
  });
  return { reward_first, eval_first, standing };
}

/** Every planned kind happened, and the job recovered from every fault that there was something to recover from. */
function expectAccounted(result: Result): void {
  const { planned, faults, recovered, harmless, recovery } = result;
  const said = JSON.stringify({ planned, faults, recovered, harmless, recovery });
  expect(kindsIn(faults), said).toEqual(kindsIn(planned));
  expect(result).toMatchObject({ unrecovered: [], incidents: { open: [] } });
  const { nobody = {}, ...others } = harmless;
  expect(recovered + Object.values(others).reduce((sum, counts) => sum + sumOf(counts), 0), said).toBe(sumOf(faults));
  expect(sumOf(faults) + sumOf(nobody), said).toBe(sumOf(planned));
  expect(recovered, said).toBeGreaterThan(0);
  expect(Object.values(recovery).reduce((sum, { n = 0 }) => sum + n, 0)).toBe(recovered);
  for (const [kind, { p50_ms = -1, max_ms = -1, max_td = -1 }] of Object.entries(recovery)) {
    expect(p50_ms, kind).toBeGreaterThan(0);
    expect(max_ms, kind).toBeLessThan(wentOnMs);
    expect(max_td, kind).toBeGreaterThanOrEqual(0);
  }
  expect(result.ettr).toBeGreaterThan(0);
  expect(result.aims.length).toBeGreaterThan(0);
}

it("leaves no process behind", async () => {
  const left = () => processesNaming(runs.path).map(({ pid, args }) => `${pid} ${args.join(" ")}`);
  await waitFor(() => left().length === 0, { what: "no process left", timeoutMs: 10_000, detail: left });
});

it("is refused with the names of the faults when one is unknown", async () => {
  const run = await spawnMuster(["chaos", "--runs", runs.path, "--faults", "kill,bite"]);
  expect((await run.exited).code).toBe(2);
  expect(run.lines.join("\n")).toContain("--faults: bite is no kind of fault; known are kill, rack, freeze");
});

/** Journals that were recorded once, replayed by the rules of today: whoever changes what is decided sees it here, on purpose or not. */
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { gunzipSync } from "node:zlib";
import { type ControllerEvent, type ControllerPlan, controllerLogic } from "@muster/machines/controller";
import { describe, expect, it } from "vitest";
import { Cluster } from "./cluster.ts";
import { plan } from "./plans.ts";

const folder = new URL("golden/", import.meta.url);
const { version } = JSON.parse(readFileSync(new URL("../package.json", import.meta.url), "utf8")) as {
  version: string;
};

/** What to do when a state is another one. */
const advice =
  "the rules come from this journal to another state: if that is meant, run `npm run golden` and say in CHANGELOG.md what is decided otherwise";

/** A job in which trainers, samplers and controllers die, leave and stand still: the plan, and its inputs one a line. */
function recorded(): string {
  const job: ControllerPlan = { ...plan, steps: 16, groupsPerStep: 12, evalPrompts: 10, stalenessMax: 1 };
  const cluster = new Cluster({ seed: 3, plan: job, faults: { duplicated: 0.1, late: 0.1, lateMs: 300 } });
  for (const id of ["policy-0", "policy-1", "policy-2", "rollout-0", "rollout-1", "checkpoint-0"])
    cluster.start(id.startsWith("p") ? "policy" : id.startsWith("r") ? "rollout" : "checkpoint", id);
  const faults: readonly (() => void)[] = [
    () => cluster.kill("policy-1"),
    () => cluster.failover({ downMs: 400, lost: true }),
    () => cluster.kill("rollout-0", false),
    () => cluster.start("policy", "policy-1"),
    () => cluster.freeze("policy-0", 1_500),
    () => cluster.failover({ downMs: 900 }),
    () => cluster.start("rollout", "rollout-0"),
    () => cluster.stop("rollout-1"),
  ];
  for (const [i, fault] of faults.entries()) {
    cluster.runUntil(() => cluster.nowMs >= 900 * (i + 1) || cluster.stopped !== null);
    fault();
  }
  cluster.runUntil(() => cluster.stopped !== null, 300_000);
  expect(cluster.stopped?.outcome).toBe("done");
  return [job, ...cluster.inputs].map((line) => `${JSON.stringify(line)}\n`).join("");
}

/** A journal as it was recorded; those of the simulator (`scripts/record-golden.mjs`) are compressed. */
function read(name: string): string {
  const bytes = readFileSync(new URL(name, folder));
  return (name.endsWith(".gz") ? gunzipSync(bytes) : bytes).toString("utf8");
}

/** A digest of each table, so that a difference says where it is. */
function digestsOf(text: string): string {
  const [job, ...events] = text.split("\n").filter((line) => line !== "");
  let effects = "";
  let { snapshot } = controllerLogic.init(JSON.parse(job ?? "") as ControllerPlan);
  for (const event of events) {
    const step = controllerLogic.step(snapshot, JSON.parse(event) as ControllerEvent);
    snapshot = step.snapshot;
    effects += JSON.stringify(step.effects);
  }
  const { plan: _, ...tables } = snapshot.context.state;
  const rows = Object.entries({ ...tables, "what was ordered and said": effects, phase: snapshot.context.phase });
  const digest = (value: unknown): string =>
    createHash("sha256").update(JSON.stringify(value)).digest("hex").slice(0, 12);
  return `${events.length} inputs\n${rows.map(([name, value]) => `${name} ${digest(value ?? null)}\n`).join("")}`;
}

describe("the rules of today", () => {
  const mine = new URL(`${version}.jsonl`, folder);
  if (!existsSync(mine) && !process.env.CI) {
    mkdirSync(folder, { recursive: true });
    writeFileSync(mine, recorded());
  }
  const journals = readdirSync(folder).filter((name) => /\.jsonl(\.gz)?$/.test(name));

  it("have a golden journal of their own version", () => {
    expect(journals).toContain(`${version}.jsonl`);
  });

  // Computes a second or two for each, more where other tests run beside it.
  it.each(journals)("come from the golden journal %s to the recorded state", { timeout: 30_000 }, async (name) => {
    const digests = digestsOf(read(name));
    await expect(digests, advice).toMatchFileSnapshot(`golden/${name.replace(/\.jsonl(\.gz)?$/, ".digests.txt")}`);
  });
});

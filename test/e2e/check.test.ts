/** `muster check` on a real run with a death in it: nothing is found; after each kind of damage that, and what it means. */
import { cpSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { checkRun, type Finding, type RunAudit } from "@muster/check";
import { openRunFolder } from "@muster/check/files";
import { type JobRun, spawnMuster } from "@muster/testkit";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { openRuns, type Runs } from "./support/small-job.ts";

let runs: Runs;
let run: JobRun;
let copies = 0;

beforeAll(async () => {
  runs = await openRuns();
  run = await runs.start("audited", "--steps", "8", "--policy", "2", "--rollout", "2");
  await run.waitForEvent("step.committed", ({ step }) => step >= 3);
  process.kill(run.pidOf("rollout-0"), "SIGKILL");
  process.kill(run.pidOf("controller"), "SIGKILL");
  await run.ended();
}, 90_000);
afterAll(() => runs.close());

/** A copy of the run, damaged. */
function damagedCopy(damage: (path: string) => void): string {
  const name = `copy-${++copies}`;
  const path = join(runs.path, name);
  runs.damaged(name);
  cpSync(run.directory, path, { recursive: true });
  damage(path);
  return path;
}

async function audit(path: string): Promise<RunAudit> {
  return await checkRun(openRunFolder(path), { journal: { missing: "not here" } });
}

/** Rewrites the lines of a file of the run. */
function rewrite(path: string, name: string, change: (lines: string[]) => readonly string[]): void {
  const lines = readFileSync(join(path, name), "utf8").trimEnd().split("\n");
  writeFileSync(join(path, name), `${change(lines).join("\n")}\n`);
}

/** Line of the commit of a step, from 0. */
function commitLine(lines: readonly string[], step: number): number {
  return lines.findIndex(
    (line) => line.includes('"kind":"step.committed"') && line.includes(`"body":{"step":${step},`),
  );
}

async function muster(...args: string[]): Promise<{ readonly code: number | null; readonly lines: readonly string[] }> {
  const process = await spawnMuster(["check", ...args]);
  const { code } = await process.exited;
  return { code, lines: process.lines };
}

const brief = ({ rule, file, line }: Finding): string => `${rule} ${file}${line === null ? "" : `:${line}`}`;

describe("a run in which a sampler and the controller were killed", () => {
  it("is found sound, with its journal, by the command line", async () => {
    const { code, lines } = await muster("audited", "--runs", runs.path, "--json");
    const found: RunAudit = JSON.parse(lines.at(-1) ?? "");
    expect({ code, violations: found.violations, unchecked: found.unchecked }).toEqual({
      code: 0,
      violations: [],
      unchecked: [],
    });
    expect(found.checked).toMatchObject({ terms: 2, commits: 8, metrics: 8 });
    expect(found.checked.records).toBeGreaterThan(40);
    expect(found.checked.checkpoints).toBeGreaterThan(0);
  });

  it("is found sound for people, too, and says what was left out", async () => {
    const { code, lines } = await muster("--runs", runs.path, "--no-journal");
    expect(code).toBe(0);
    expect(lines[0]).toBe("audited: all that was checked holds");
    expect(lines).toContain("not checked  the journal: left out by --no-journal");
  });
});

describe("damage to the events is found:", () => {
  it("a line that stands there twice", async () => {
    let line = 0;
    const path = damagedCopy((at) =>
      rewrite(at, "events.jsonl", (lines) => {
        line = commitLine(lines, 4) + 1;
        return lines.toSpliced(line, 0, lines[line - 1] ?? "");
      }),
    );
    const { violations } = await audit(path);
    expect(violations.map(brief)).toEqual([`file events.jsonl:${line + 1}`]);
    expect(violations[0]?.says).toMatch(/event \d+ stands here a second time/);
  });

  it("a commit that is told again as another event: its groups were trained twice", async () => {
    const path = damagedCopy((at) =>
      rewrite(at, "events.jsonl", (lines) => {
        const line = lines[commitLine(lines, 4)] ?? "";
        const last = JSON.parse(lines.at(-1) ?? "");
        return [...lines, line.replace(/"seq":\d+/, `"seq":${last.seq + 1}`).replace(/,"sum":"[0-9a-f]+"/, "")];
      }),
    );
    const { violations } = await audit(path);
    expect(violations.map(({ rule }) => rule)).toContain("S16");
    expect(violations[0]?.says).toMatch(/step 4 ends a second time/);
    expect(violations[0]?.means).toBe("trajectories were trained twice");
  });

  it("a digest that was altered, by the line and by the journal", async () => {
    let line = 0;
    const path = damagedCopy((at) =>
      rewrite(at, "events.jsonl", (lines) => {
        line = commitLine(lines, 3) + 1;
        return lines.with(line - 1, (lines[line - 1] ?? "").replace(/"digest":"xxh3b:./, '"digest":"xxh3b:-'));
      }),
    );
    const { code, lines } = await muster(path, "--json");
    const { violations }: RunAudit = JSON.parse(lines.at(-1) ?? "");
    expect(code).toBe(1);
    expect(violations.map(brief)).toEqual([`file events.jsonl:${line}`, `S10 events.jsonl:${line}`]);
    expect(violations[1]?.says).toMatch(/step 3 is committed with .*xxh3b:-.*, the journal has /);
  });

  it("a line that is lost in the middle, whatever it said", async () => {
    for (const isMeant of ['"kind":"member.joined"', '"kind":"step.committed"']) {
      let line = 0;
      const path = damagedCopy((at) =>
        rewrite(at, "events.jsonl", (lines) => {
          line = lines.findLastIndex((text) => text.includes(isMeant));
          return lines.toSpliced(line, 1);
        }),
      );
      const { violations } = await audit(path);
      expect(violations[0] && brief(violations[0])).toBe(`file events.jsonl:${line + 1}`);
      expect(violations[0]?.says).toMatch(/^event \d+ is missing before this line/);
    }
  });

  it("a line in the middle that is cut", async () => {
    const path = damagedCopy((at) =>
      rewrite(at, "events.jsonl", (lines) => lines.with(5, (lines[5] ?? "").slice(0, 40))),
    );
    const { violations } = await audit(path);
    expect(violations.map(brief)).toEqual(["file events.jsonl:6"]);
  });

  it("but a last line that is cut is what a crash leaves", async () => {
    const path = damagedCopy((at) => {
      const text = readFileSync(join(at, "events.jsonl"), "utf8");
      writeFileSync(join(at, "events.jsonl"), text.slice(0, -20));
    });
    const { violations, notes } = await audit(path);
    expect(violations).toEqual([]);
    expect(notes).toEqual([expect.stringMatching(/^events.jsonl ends in the middle of line \d+/)]);
  });
});

describe("damage to the rest is found:", () => {
  const checkpointsIn = (path: string): string => join(path, "checkpoints");
  const newestIn = (path: string): string =>
    readdirSync(checkpointsIn(path))
      .filter((name) => name.startsWith("step-"))
      .sort()
      .at(-1) ?? "";

  /** The job keeps its checkpoints in its own folder: of a copy that is another one. */
  function ownCheckpoints(path: string): void {
    const config = JSON.parse(readFileSync(join(path, "job.json"), "utf8"));
    config.checkpoint.directory = checkpointsIn(path);
    writeFileSync(join(path, "job.json"), JSON.stringify(config));
  }

  it("a manifest of another version", async () => {
    const path = damagedCopy((at) => {
      ownCheckpoints(at);
      const manifest = join(checkpointsIn(at), newestIn(at), "manifest.json");
      writeFileSync(manifest, readFileSync(manifest, "utf8").replace('"version": 8', '"version": 7'));
    });
    const { violations } = await audit(path);
    expect(violations.map(brief)).toEqual([`S25 checkpoints/${newestIn(path)}`]);
    expect(violations[0]?.means).toMatch(/do not resume or serve from it/);
  });

  it("a checkpoint under the name of another step", async () => {
    const path = damagedCopy((at) => {
      ownCheckpoints(at);
      cpSync(join(checkpointsIn(at), newestIn(at)), join(checkpointsIn(at), "step-00000009-v9-t2"), {
        recursive: true,
      });
    });
    const { violations } = await audit(path);
    expect(violations.map(brief)).toEqual(["S25 checkpoints/step-00000009-v9-t2"]);
  });

  it("a byte of the weights", async () => {
    const path = damagedCopy((at) => {
      ownCheckpoints(at);
      const weights = join(checkpointsIn(at), newestIn(at), "model.safetensors");
      const bytes = readFileSync(weights);
      bytes[bytes.length - 1] = (bytes.at(-1) ?? 0) ^ 1;
      writeFileSync(weights, bytes);
    });
    expect((await audit(path)).violations.map(({ says }) => says)).toEqual([expect.stringMatching(/sha-256/)]);
  });

  it("the newest checkpoint that is gone", async () => {
    const path = damagedCopy((at) => {
      ownCheckpoints(at);
      mkdirSync(join(checkpointsIn(at), "step-00000000-v0-t0"));
      rmSync(join(checkpointsIn(at), newestIn(at)), { recursive: true });
    });
    expect((await audit(path)).violations.map(({ rule }) => rule)).toContain("S26");
  });

  it("metrics and a summary that say something else than the events", async () => {
    const path = damagedCopy((at) => {
      rewrite(at, "metrics.jsonl", (lines) => lines.with(2, (lines[2] ?? "").replace(/"reward":/, '"reward":1')));
      const summary = readFileSync(join(at, "summary.json"), "utf8");
      writeFileSync(join(at, "summary.json"), summary.replace(/"weights_hash": "xxh3b:./, '"weights_hash": "xxh3b:-'));
    });
    expect((await audit(path)).violations.map(brief)).toEqual(["file metrics.jsonl:3", "S10 summary.json"]);
  });

  it("metrics that lack their last line", async () => {
    const path = damagedCopy((at) => rewrite(at, "metrics.jsonl", (lines) => lines.slice(0, -1)));
    expect((await audit(path)).violations.map(brief)).toEqual(["file metrics.jsonl"]);
  });
});

describe("what is no run is refused with exit code 2:", () => {
  it("a name that nobody has, and a folder without a job", async () => {
    const unknown = await muster("nobody", "--runs", runs.path);
    expect(unknown.code).toBe(2);
    expect(unknown.lines.join("\n")).toMatch(/no job "nobody"/);
    const path = damagedCopy((at) => rmSync(join(at, "job.json")));
    const empty = await muster(path.split("/").at(-1) ?? "", "--runs", runs.path);
    expect(empty.code).toBe(2);
    expect(empty.lines.join("\n")).toMatch(/is not the folder of a run: it has no job.json/);
  });
});

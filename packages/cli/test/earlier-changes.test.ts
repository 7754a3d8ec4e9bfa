/** Settings that were changed in a run whose store is lost: its new journal begins after the newest checkpoint, and refuses steps before that. */

import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { changeLine } from "@muster/check";
import { formatCheckpointName } from "@muster/protocol";
import { afterEach, expect, it } from "vitest";
import { earlierChanges } from "../src/run/resumed.ts";

const folder = mkdtempSync(join(tmpdir(), "muster-changes-"));
const checkpoints = join(folder, "checkpoints");

afterEach(() => rmSync(folder, { recursive: true, force: true }));

function write(changes: readonly object[], steps: readonly number[]): void {
  mkdirSync(checkpoints, { recursive: true });
  for (const step of steps)
    mkdirSync(join(checkpoints, formatCheckpointName({ step, version: step, term: 1, attempt: 1 })));
  const line = (body: object, seq: number) =>
    JSON.stringify({ seq, at: "2026-01-01T00:00:00Z", from: "controller", term: 1, kind: "job.changed", body });
  writeFileSync(join(folder, "events.jsonl"), changes.map((body, i) => `${line(body, i + 1)}\n`).join(""));
}

it("what counted already at the first step of the new journal counts from there on, and later steps keep theirs", async () => {
  const changes = [
    { fromStep: 3, settings: { lr: 0.5, lrWarmupSteps: 0 }, before: {} },
    { fromStep: 12, settings: { lr: 0.1 }, before: {} },
    { fromStep: 6, settings: { lr: 0.2 }, before: {} },
    { fromStep: 9, settings: { stalenessMax: 2 }, before: {} },
  ];
  write(changes, [4, 8]);
  expect(await earlierChanges(folder, checkpoints)).toEqual([
    { settings: { lr: 0.2, lrWarmupSteps: 0, stalenessMax: 2 } },
    { settings: { lr: 0.1 }, fromStep: 12 },
  ]);
});

it("those whose events were dropped are in a file of their own", async () => {
  write([], [4]);
  const change = (fromStep: number, lr: number) => changeLine({ fromStep, settings: { lr } }, "2026-01-01T00:00:00Z");
  writeFileSync(join(folder, "changes.jsonl"), `${change(2, 0.5)}\n${change(7, 0.25)}\n{"at":"2026-`);
  expect(await earlierChanges(folder, checkpoints)).toEqual([
    { settings: { lr: 0.5 } },
    { settings: { lr: 0.25 }, fromStep: 7 },
  ]);
});

it("nothing is ordered where nothing was changed", async () => {
  write([], [4]);
  expect(await earlierChanges(folder, checkpoints)).toEqual([]);
  expect(await earlierChanges(folder, join(folder, "none"))).toEqual([]);
});

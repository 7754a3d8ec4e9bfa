/** The file that says which ranks are there: a full disk ends nothing, and a run of one host leaves none of before. */
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { silentLogger } from "@muster/base";
import { systemClock } from "@muster/runtime";
import { expect, onTestFinished, test } from "vitest";
import { join as joinMaster } from "../../src/multinode/join.ts";
import { openMaster } from "../../src/multinode/master.ts";
import { readRanks, writeRanks } from "../../src/multinode/ranks-file.ts";
import { DiskWatch } from "../../src/run/disk-watch.ts";
import { openRunDirectory } from "../../src/run/run-directory.ts";

test("a rank joins while the disk of the master is full, which is told; a run of one host removes the file", async () => {
  const runs = mkdtempSync(join(tmpdir(), "muster-ranks-"));
  onTestFinished(() => rmSync(runs, { recursive: true }));
  const run = openRunDirectory(runs, "exp1");
  const told: string[] = [];
  const disk = new DiskWatch({ folders: [], clock: systemClock(), onFull: (detail) => void told.push(detail) });
  onTestFinished(() => disk.close());
  let isFull = false;
  const write = (name: string, text: string): void => {
    if (isFull) throw Object.assign(new Error("MUSTER_ERR_RUN_DIRECTORY"), { cause: { code: "ENOSPC" } });
    run.write(name, text);
  };
  const token = "0123456789abcdef0123456789abcdef";
  const clock = systemClock();
  const master = await openMaster({
    ...{ host: "127.0.0.1", port: 0, token, nodes: 2, said: {}, broker: null, clock, logger: silentLogger },
    admit: () => ({ job: "exp1", connection: "{}", tunnel: true, capacity: "" }),
    onNews: () => {},
    onChange: (ranks) => writeRanks({ path: run.path, write }, disk, ranks),
  });
  onTestFinished(() => master.end({ outcome: "done", reason: "" }));
  isFull = true;
  const { signal } = new AbortController();
  const at = { host: "127.0.0.1", port: master.port, token, rank: 1, said: {}, timeoutMs: 10_000 };
  expect((await joinMaster({ ...at, clock, signal, onNews: () => {} })).admission.job).toBe("exp1");
  expect(told).toEqual([expect.stringMatching(/ranks\.json can not be written/)]);
  expect(readRanks(run.path)?.ranks.map(({ host }) => host === null)).toEqual([false, true]);
  writeRanks(run, disk, null);
  expect(existsSync(join(run.path, "ranks.json"))).toBe(false);
});

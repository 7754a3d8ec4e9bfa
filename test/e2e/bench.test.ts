import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readdirSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { openTestHosts } from "@muster/runtime";
import { processesNaming } from "@muster/testkit";
import { describe, expect, it } from "vitest";

const command = fileURLToPath(new URL("../../packages/cli/bin/muster.mjs", import.meta.url));
const member = fileURLToPath(new URL("../../packages/cli/dist/bench/weights/member.js", import.meta.url));

/** Starts `muster bench` with these words. `saidSo` is done when it has said something of the kind on standard error. */
function start(...words: string[]) {
  const child = spawn(process.execPath, [command, "bench", ...words], { stdio: ["ignore", "pipe", "pipe"] });
  const said = { stdout: "", stderr: "" };
  child.stdout.on("data", (chunk) => {
    said.stdout += chunk;
  });
  child.stderr.on("data", (chunk) => {
    said.stderr += chunk;
  });
  const ended = once(child, "close").then(([code]) => ({ code, pid: child.pid, ...said }));
  const saidSo = async (text: string): Promise<void> => {
    while (!said.stderr.includes(text)) await once(child.stderr, "data");
  };
  return { child, ended, saidSo };
}

/** Runs `muster bench` with these words. */
const bench = (...words: string[]) => start(...words).ended;

/** Why there can be no network namespaces here; `null` when there can. */
function hostsMissing(): string | null {
  const network = openTestHosts({ count: 1 });
  if ("missing" in network) return network.missing;
  network.close();
  return null;
}

/** Network namespaces that a process of Muster has made. */
const namespacesOf = (pid: number | undefined): string[] =>
  existsSync("/run/netns") ? readdirSync("/run/netns").filter((name) => name.startsWith(`mu${pid}n`)) : [];

describe("muster bench allreduce", () => {
  it("measures sums of every size, and many tensors against one, and ends with one line of JSON", async () => {
    const words = ["--world", "2,3", "--size", "0.0625,1", "--rounds", "1", "--no-peers", "--json"];
    const { code, stdout, stderr } = await bench("allreduce", ...words);
    expect(code, stderr).toBe(0);
    const { report, ...line } = JSON.parse(stdout);
    expect(line).toMatchObject({
      bench: "allreduce",
      rows: expect.arrayContaining([
        { name: expect.stringContaining("W=2"), value: expect.any(Number), unit: "s", aim: null, met: null },
      ]),
    });
    expect(report).toMatchObject({ command: "allreduce", machine: { cores: expect.any(Number) } });
    const rows: { name: string; world: number; bytes: number; seconds: number; comparisons: { with: string }[] }[] =
      report.rows;
    const own = rows.filter(({ name }) => name === "all-reduce into each rank's own memory");
    expect(own.map(({ world, bytes }) => [world, bytes])).toEqual([
      [2, 65_536],
      [2, 2 ** 20],
      [3, 65_536],
      [3, 2 ** 20],
    ]);
    for (const { seconds, comparisons } of rows) {
      expect(seconds).toBeGreaterThan(0);
      expect(comparisons).toHaveLength(1);
    }
    expect(rows.filter(({ name }) => name === "1000 tensors of 64 KiB, fused")).toHaveLength(2);
    expect(stderr).toContain("all-reduce, one result for the host, W=3, 1 MiB");
  }, 60_000);

  it("refuses sizes that are none", async () => {
    const { code, stderr } = await bench("allreduce", "--size", "0.0001");
    expect(code).toBe(2);
    expect(stderr).toContain("--size");
  });
});

describe("muster bench weights", () => {
  it("names the signal that killed a process, and keeps what it measured before", async () => {
    const running = start("weights", "--world", "2", "--size", "1,2", "--rounds", "100", "--no-peers", "--json");
    await running.saidSo("publication, then into the memory of all receivers, W=2, 1 MiB");
    while (processesNaming(member).length < 2) await new Promise((done) => setImmediate(done));
    process.kill(processesNaming(member)[1]!.pid, "SIGKILL");
    const { code, stdout, stderr } = await running.ended;
    expect(code, stderr).toBe(1);
    const { report } = JSON.parse(stdout);
    expect(report.rows.map(({ bytes }: { bytes: number }) => bytes)).toEqual(Array(6).fill(2 ** 20));
    expect(report.failure).toContain("SIGKILL");
    expect(stderr).toContain("SIGKILL");
    expect(processesNaming(member)).toEqual([]);
  }, 120_000);

  it("leaves out what does not fit into memory, with the figures, before it starts", async () => {
    const { code, stdout, stderr } = await bench(
      "weights",
      "--world",
      "64",
      "--size",
      "4095",
      "--rounds",
      "1",
      "--no-peers",
    );
    expect(code).toBe(1);
    expect(stdout).toMatch(/W=64, 4 GiB was left out: it takes about \d+\.?\d* GiB of memory, and .* are available/);
    expect(stderr).toContain("nothing of it fits into memory");
  }, 60_000);

  it("shows versions beside the limit of the host, and beside copies that each read the source", async () => {
    const { code, stdout, stderr } = await bench(
      ...["weights", "--world", "3", "--size", "1", "--rounds", "1", "--no-peers", "--json"],
    );
    expect(code, stderr).toBe(0);
    expect(JSON.parse(stdout).report.rows[0]).toMatchObject({
      name: "published version into the memory of all receivers",
      comparisons: [
        { with: "limit of the host", seconds: expect.any(Number), target: 0.85 },
        { with: "as many copies, each read anew", seconds: expect.any(Number), target: null },
      ],
    });
  }, 60_000);

  it("ends with a version of many small sections beside one of as many bytes", async () => {
    const { code, stdout, stderr } = await bench(
      ...["weights", "--world", "2", "--size", "1", "--rounds", "1", "--no-peers", "--json"],
    );
    expect(code, stderr).toBe(0);
    expect(JSON.parse(stdout).report.rows.at(-1)).toMatchObject({
      name: "1000 sections of 64 KiB, published and pulled",
      comparisons: [{ with: "one section of as many bytes", seconds: expect.any(Number) }],
    });
  }, 60_000);
});

describe("muster bench weights --hosts", () => {
  it("measures a chain of hosts in peace, with a replica killed and with one frozen, and leaves no namespace behind", async (context) => {
    const missing = hostsMissing();
    if (missing) return context.skip(missing);
    const words = ["--hosts", "4", "--link", "500", "--size", "16", "--rounds", "1", "--no-peers", "--json"];
    const { code, stdout, stderr, pid } = await bench("weights", ...words);
    expect(code, stderr).toBe(0);
    expect(JSON.parse(stdout).report.rows).toMatchObject([
      { name: "version down a chain of hosts", world: 4, comparisons: [{ with: "line rate of 500 Mbit/s" }] },
      { name: "version down a chain of hosts, one killed midway", comparisons: [{ with: "the chain undisturbed" }] },
      { name: "version down a chain of hosts, one frozen midway", comparisons: [{ with: "the chain undisturbed" }] },
    ]);
    expect(stderr).toMatch(/round 1 of 1: undisturbed .* s, killed .* s, frozen .* s/);
    expect(namespacesOf(pid)).toEqual([]);
  }, 60_000);

  it("ends with its processes and namespaces at the first Ctrl-C", async (context) => {
    const missing = hostsMissing();
    if (missing) return context.skip(missing);
    const running = start("weights", "--hosts", "3", "--size", "16", "--rounds", "1000", "--no-peers");
    await running.saidSo("round 1 of 1000");
    running.child.kill("SIGINT");
    const { code, pid } = await running.ended;
    expect(code).toBe(130);
    expect(namespacesOf(pid)).toEqual([]);
    expect(processesNaming(member)).toEqual([]);
  }, 60_000);

  it("leaves out what does not fit into memory before it makes a host, and says what to give smaller", async () => {
    const { code, stdout, stderr } = await bench(
      ...["weights", "--hosts", "64", "--size", "4095", "--rounds", "1", "--no-peers"],
    );
    expect(code).toBe(1);
    expect(stdout).toMatch(/W=64, 4 GiB was left out: it takes about \d+\.?\d* GiB of memory, and .* are available/);
    expect(stderr).toMatch(/nothing of it fits into memory: .*; give smaller --size or --hosts\n$/);
  }, 60_000);

  it("says that hosts and processes of one host are two measurements", async () => {
    const { code, stderr } = await bench("weights", "--hosts", "--world", "2");
    expect(code).toBe(2);
    expect(stderr).toContain("--world");
  });
});

import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";

const command = fileURLToPath(new URL("../../packages/cli/bin/muster.mjs", import.meta.url));

/** Runs `muster bench` with these words. */
function bench(...words: string[]): Promise<{ code: number; stdout: string; stderr: string }> {
  return new Promise((resolve) => {
    execFile(process.execPath, [command, "bench", ...words], (error, stdout, stderr) =>
      resolve({ code: typeof error?.code === "number" ? error.code : 0, stdout, stderr }),
    );
  });
}

describe("muster bench allreduce", () => {
  it("measures sums of every size, and many tensors against one, and ends with one line of JSON", async () => {
    const words = ["--world", "2,3", "--size", "0.0625,1", "--rounds", "1", "--no-peers", "--json"];
    const { code, stdout, stderr } = await bench("allreduce", ...words);
    expect(code, stderr).toBe(0);
    const report = JSON.parse(stdout);
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

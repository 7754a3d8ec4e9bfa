/** What a node takes for a sign that its host may fail soon: files of the kernel, and the words of `nvidia-smi`. */
import { chmodSync, mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { makeTempDirectory, type TempDirectory } from "@muster/testkit";
import { afterEach, beforeEach, expect, it } from "vitest";
import { type HostSigns, openHostSigns } from "../src/node/host-signs.ts";

let host: TempDirectory;
let signs: HostSigns;
beforeEach(async () => {
  host = await makeTempDirectory();
  signs = openHostSigns({ root: host.path, env: { PATH: `${join(host.path, "bin")}:/usr/bin:/bin` } });
});
afterEach(async () => {
  signs.close();
  await host.remove();
});

function write(path: string, text: string): string {
  const file = join(host.path, path);
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, text);
  return file;
}

const gpu = (script: string) => chmodSync(write("bin/nvidia-smi", `#!/bin/sh\n${script}\n`), 0o755);
const read = async () => (await signs.read()).map(({ kind, detail }) => `${kind}: ${detail}`);

it("sees nothing on a host that is well, or tells nothing", async () => {
  expect(await read()).toEqual([]);
  write("proc/meminfo", "MemTotal:       1000 kB\nMemFree:         1 kB\nMemAvailable:    900 kB\n");
  write("sys/devices/system/edac/mc/mc0/ue_count", "0\n");
  write("sys/class/thermal/thermal_zone0/temp", "50000\n");
  write("sys/class/thermal/thermal_zone0/trip_point_0_type", "critical\n");
  write("sys/class/thermal/thermal_zone0/trip_point_0_temp", "100000\n");
  gpu("echo '0, 0, No, Not Active'; echo '1, [N/A], [N/A], Not Active'");
  for (let i = 0; i < 4; i++) expect(await read()).toEqual([]);
});

it("takes errors of memory that could not be corrected at once", async () => {
  write("sys/devices/system/edac/mc/mc0/ue_count", "0\n");
  write("sys/devices/system/edac/mc/mc1/ue_count", "2\n");
  expect(await read()).toEqual(["memory-errors: memory errors beyond correction: mc1 counts 2"]);
});

it("takes what comes and goes only when it stays: little memory, heat", async () => {
  write("proc/meminfo", "MemTotal:       1000 kB\nMemAvailable:    10 kB\n");
  write("sys/class/thermal/thermal_zone3/temp", "96000\n");
  write("sys/class/thermal/thermal_zone3/trip_point_0_type", "passive\n");
  write("sys/class/thermal/thermal_zone3/trip_point_0_temp", "80000\n");
  write("sys/class/thermal/thermal_zone3/trip_point_1_type", "critical\n");
  write("sys/class/thermal/thermal_zone3/trip_point_1_temp", "100000\n");
  expect([await read(), await read()]).toEqual([[], []]);
  expect(await read()).toEqual([
    "memory: 1.0 % of the memory is available",
    "heat: thermal_zone3 has 96 °C, and is turned off at 100 °C",
  ]);
  write("proc/meminfo", "MemTotal:       1000 kB\nMemAvailable:    500 kB\n");
  write("sys/class/thermal/thermal_zone3/temp", "90000\n");
  expect(await read()).toEqual([]);
});

it("asks the GPUs for errors, for pages to be retired and for heat", async () => {
  gpu("echo '0, 0, No, Not Active'; echo '1, 4, Yes, Active'");
  const bad = "GPU 1: 4 memory errors beyond correction, pages of memory wait to be retired, slowed down by heat";
  expect(await read()).toEqual([`gpu: ${bad}`]);
});

it("takes a GPU that fell off the bus for a sign, and a driver that does not know a question for none", async () => {
  gpu("echo 'Unable to determine the device handle for GPU 0000:03:00.0' >&2; exit 15");
  expect(await read()).toEqual([
    "gpu: nvidia-smi ends with 15: Unable to determine the device handle for GPU 0000:03:00.0",
  ]);
  gpu("echo 'Field is not a valid field to query'; exit 2");
  expect(await read()).toEqual([]);
});

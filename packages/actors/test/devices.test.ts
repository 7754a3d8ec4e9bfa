/** The devices of a host, and what a process is told of those that it has. */
import { chmodSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { makeTempDirectory, type TempDirectory } from "@muster/testkit";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { environmentOf, findDevices } from "../src/node/devices.ts";

let directory: TempDirectory;
beforeEach(async () => {
  directory = await makeTempDirectory();
});
afterEach(() => directory.remove());

/** Finds the devices of a host with these files in `/dev` and this driver. */
async function found({ files = [], driver, left }: { files?: string[]; driver?: string; left?: string }) {
  mkdirSync(join(directory.path, "dev"), { recursive: true });
  for (const name of files) writeFileSync(join(directory.path, "dev", name), "");
  if (driver !== undefined) {
    writeFileSync(join(directory.path, "nvidia-smi"), `#!/bin/sh\n${driver}\n`);
    chmodSync(join(directory.path, "nvidia-smi"), 0o755);
  }
  const env = { PATH: directory.path, ...(left === undefined ? {} : { CUDA_VISIBLE_DEVICES: left }) };
  return await findDevices({ env, root: directory.path });
}

describe("the devices of a host", () => {
  const files = ["nvidia10", "nvidia2", "nvidia0", "nvidiactl", "nvidia-uvm", "null"];

  it("are those that the driver names", async () => {
    expect(await found({ files, driver: "[ \"$1\" = --query-gpu=index ] && printf '0\\n1\\n'" })).toEqual(["0", "1"]);
  });

  it("are the files of devices where the driver does not answer, by number", async () => {
    expect(await found({ files, driver: "echo broken; exit 9" })).toEqual(["0", "2", "10"]);
    expect(await found({ files })).toEqual(["0", "2", "10"]);
  });

  it("are none where there are none", async () => {
    expect(await found({})).toEqual([]);
    expect(await findDevices({ env: { PATH: "" }, root: join(directory.path, "nowhere") })).toEqual([]);
  });

  it.each([
    ["2,GPU-8932f937, 5", ["2", "GPU-8932f937", "5"]],
    ["", []],
    ["NoDevFiles", []],
    ["1,-1,2", ["1"]],
  ])("are those that the node was left itself: %j", async (left, devices) => {
    expect(await found({ files, left })).toEqual(devices);
  });
});

describe("the environment of a process", () => {
  const env = { HOME: "/h", CUDA_VISIBLE_DEVICES: "0,1,2,3" };

  it("names its devices, with the order that their numbers mean", () => {
    expect(environmentOf(env, ["1", "3"])).toEqual({
      HOME: "/h",
      CUDA_DEVICE_ORDER: "PCI_BUS_ID",
      CUDA_VISIBLE_DEVICES: "1,3",
      MUSTER_DEVICES: "1,3",
    });
    expect(environmentOf({ CUDA_DEVICE_ORDER: "FASTEST_FIRST" }, ["1"]).CUDA_DEVICE_ORDER).toBe("FASTEST_FIRST");
  });

  it("shows none to a process that has none, and is the node's own where the job gives none to any", () => {
    expect(environmentOf(env, []).CUDA_VISIBLE_DEVICES).toBe("");
    expect(environmentOf(env, null)).toBe(env);
  });
});

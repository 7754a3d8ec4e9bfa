import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { makeTempDirectory } from "@muster/testkit";
import { beforeAll, describe, expect, it } from "vitest";
import { gpuCapabilities, gpuLibrariesOf } from "../src/index.ts";
import { buildFakeGpu, buildTimeoutMs } from "./support/fake-gpu.ts";

const wait = { deadlineMs: 10_000, signal: new AbortController().signal };
let fake: string;

beforeAll(() => {
  fake = buildFakeGpu();
}, buildTimeoutMs);

describe("GPU capabilities", () => {
  it("names driver, devices, NCCL and what follows from them", async () => {
    const found = await gpuCapabilities({ cuda: fake, nccl: [fake] }, wait);
    expect(found.cuda).toMatchObject({ version: "13.0", path: fake, missing: [] });
    expect(found.cuda.reason).toBeUndefined();
    expect(found.devices).toEqual([
      { index: 0, name: "Fake GPU 0", memoryBytes: 8 * 2 ** 30, compute: "9.0", sharing: true },
    ]);
    expect(found.nccl).toMatchObject({ version: "2.27.3" });
    const works = Object.fromEntries(found.features.map((feature) => [feature.name, feature.works]));
    expect(works).toEqual({
      "device memory": true,
      "memory between processes": true,
      collectives: true,
      shrink: true,
      grow: true,
      revoke: true,
      "several ranks on one gpu": false,
    });
  });

  it("says where it looked in vain and why, and that nothing works then", async () => {
    const found = await gpuCapabilities({ cuda: "/no/libcuda.so.1", nccl: ["/no/a.so", "/no/b.so"] }, wait);
    expect(found.cuda.reason).toContain("/no/libcuda.so.1: cannot open shared object file");
    expect(found.nccl.failed.map(({ path }) => path)).toEqual(["/no/a.so", "/no/b.so"]);
    expect(found.devices).toEqual([]);
    expect(found.features.filter(({ works }) => works)).toEqual([]);
  });

  it("needs a driver even when NCCL is there", async () => {
    const found = await gpuCapabilities({ cuda: "/no/libcuda.so.1", nccl: [fake] }, wait);
    expect(found.nccl.version).toBe("2.27.3");
    expect(found.features.filter(({ works }) => works)).toEqual([]);
  });

  it("ends with an abort", async () => {
    const asked = gpuCapabilities({ cuda: fake, nccl: [] }, { ...wait, signal: AbortSignal.abort() });
    await expect(asked).rejects.toMatchObject({ code: "MUSTER_ERR_GPU_ABORTED" });
  });
});

describe("where NCCL is looked for", () => {
  it("the linker's first, then the wheels of the active Python; the setting stands alone", async () => {
    const folder = await makeTempDirectory();
    const wheel = join(folder.path, "lib/python3.12/site-packages/nvidia/nccl/lib");
    mkdirSync(wheel, { recursive: true });
    writeFileSync(join(wheel, "libnccl.so.2"), "");
    expect(gpuLibrariesOf({ VIRTUAL_ENV: folder.path }).nccl.slice(0, 2)).toEqual([
      "libnccl.so.2",
      join(wheel, "libnccl.so.2"),
    ]);
    const bin = join(folder.path, "bin");
    mkdirSync(bin);
    writeFileSync(join(bin, "python3"), "");
    expect(gpuLibrariesOf({ PATH: `/nowhere:${bin}` }).nccl[1]).toBe(join(wheel, "libnccl.so.2"));
    const set = {
      VIRTUAL_ENV: folder.path,
      MUSTER_NCCL_PATH: "/opt/libnccl.so.2",
      MUSTER_CUDA_PATH: "/opt/libcuda.so.1",
    };
    expect(gpuLibrariesOf(set)).toEqual({ cuda: "/opt/libcuda.so.1", nccl: ["/opt/libnccl.so.2"] });
    await folder.remove();
  });
});

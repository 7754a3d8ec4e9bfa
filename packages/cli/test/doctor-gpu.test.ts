import type { GpuCapabilities } from "@muster/collectives";
import { describe, expect, it } from "vitest";
import { checkGpu, gpuChecks } from "../src/doctor/gpu.ts";

const library = { failed: [], missing: [] };
const whole: GpuCapabilities = {
  cuda: { ...library, path: "/usr/lib/libcuda.so.1", version: "13.0" },
  nccl: { ...library, path: "/usr/lib/libnccl.so.2", version: "2.27.3" },
  devices: [{ index: 0, name: "NVIDIA X", memoryBytes: 80 * 2 ** 30, compute: "9.0", sharing: true }],
  features: [
    { name: "collectives", works: true },
    { name: "shrink", works: false, note: "NCCL 2.27" },
  ],
};
const noDriver: GpuCapabilities = {
  ...whole,
  cuda: { ...library, reason: "libcuda.so.1: cannot open shared object file" },
  devices: [],
};

describe("the doctor and GPUs", () => {
  it("names devices, NCCL and what works", () => {
    const checks = gpuChecks(whole, 1, {});
    expect(checks.map(({ name, state }) => [name, state])).toEqual([
      ["gpu", "ok"],
      ["nccl", "ok"],
      ["gpu features", "ok"],
    ]);
    expect(checks[0]?.detail).toContain("0: NVIDIA X, 80.0 GiB, compute 9.0");
    expect(checks[1]?.detail).toBe("2.27.3 at /usr/lib/libnccl.so.2");
    expect(checks[2]?.detail).toBe("collectives; without shrink (NCCL 2.27)");
  });

  it("is content without a GPU, and says what the linker said", () => {
    const [check] = gpuChecks(noDriver, 0, {});
    expect(check).toMatchObject({ state: "ok", detail: expect.stringContaining("cannot open shared object file") });
  });

  it("warns of devices without a driver, and of a setting that leads nowhere", () => {
    expect(gpuChecks(noDriver, 8, {})[0]).toMatchObject({
      state: "warn",
      detail: expect.stringContaining("8 NVIDIA devices, but no CUDA driver"),
      fix: expect.stringContaining("container toolkit"),
    });
    expect(gpuChecks(noDriver, 0, { MUSTER_CUDA_PATH: "/x" })[0]?.fix).toContain("MUSTER_CUDA_PATH");
  });

  it("warns of devices without NCCL, and of a driver that lacks functions", () => {
    const noNccl = { ...whole, nccl: { ...library, reason: "libnccl.so.2: not found" } };
    expect(gpuChecks(noNccl, 1, {})[1]).toMatchObject({
      state: "warn",
      fix: expect.stringContaining("nvidia-nccl-cu13"),
    });
    expect(gpuChecks(noNccl, 1, { MUSTER_NCCL_PATH: "/x" })[1]?.fix).toContain("MUSTER_NCCL_PATH");
    const old = { ...whole, cuda: { ...whole.cuda, missing: ["cuMemCreate"] } };
    expect(gpuChecks(old, 1, {})[0]).toMatchObject({
      state: "warn",
      detail: expect.stringContaining("without cuMemCreate"),
    });
  });

  it("asks the real libraries, whatever this machine has, and finds nothing that a job needs", async () => {
    const checks = await checkGpu({});
    expect(checks[0]?.name).toBe("gpu");
    expect(checks.filter(({ state }) => state === "missing")).toEqual([]);
  });
});

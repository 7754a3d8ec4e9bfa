/** GPUs, their driver and NCCL: what they would allow. No job needs them. */
import { readdirSync } from "node:fs";
import { formatSize, messageOf } from "@muster/base";
import { type GpuCapabilities, type GpuLibrary, gpuCapabilities, gpuLibrariesOf } from "@muster/collectives";
import { type Check, ok, warn } from "./check.ts";

type Environment = Readonly<Record<string, string | undefined>>;

/** A driver that wakes many GPUs takes seconds. */
const deadlineMs = 20_000;

/** Asks the driver and NCCL what they can do. Never finds anything missing: the engine that comes with Muster computes on the CPU. */
export async function checkGpu(env: Environment): Promise<readonly Check[]> {
  const files = readdirSync("/dev").filter((name) => /^nvidia\d+$/.test(name)).length;
  try {
    const found = await gpuCapabilities(gpuLibrariesOf(env), { deadlineMs, signal: new AbortController().signal });
    return gpuChecks(found, files, env);
  } catch (error) {
    return [warn("gpu", messageOf(error), "see that nvidia-smi works, or run without a GPU")];
  }
}

/** What was found, in lines. `files` is the number of device files of GPUs. Pure. */
export function gpuChecks(found: GpuCapabilities, files: number, env: Environment): readonly Check[] {
  const { cuda, devices } = found;
  if (cuda.reason !== undefined) return [withoutDriver(cuda, files, env)];
  if (devices.length === 0) return [ok("gpu", `CUDA driver ${cuda.version}, no device; jobs run on the CPU`)];
  return [deviceCheck(found), ncclCheck(found, env), featureCheck(found)];
}

function withoutDriver(cuda: GpuLibrary, files: number, env: Environment): Check {
  const wanted = env.MUSTER_CUDA_PATH !== undefined;
  if (files === 0 && !wanted) return ok("gpu", `none; jobs run on the CPU (${cuda.reason})`);
  const fix = wanted
    ? "let MUSTER_CUDA_PATH name the libcuda.so.1 of the driver, or unset it"
    : "install the NVIDIA driver's libcuda.so.1, in a container by the NVIDIA container toolkit, or set MUSTER_CUDA_PATH";
  return warn("gpu", `${files} NVIDIA devices, but no CUDA driver: ${cuda.reason}`, fix);
}

function deviceCheck({ cuda, devices }: GpuCapabilities): Check {
  const names = devices.map(
    ({ index, name, memoryBytes, compute }) => `${index}: ${name}, ${formatSize(memoryBytes)}, compute ${compute}`,
  );
  const detail = `CUDA driver ${cuda.version}; ${names.join("; ")}; the engine that comes with Muster does not use them`;
  if (cuda.missing.length === 0) return ok("gpu", detail);
  return warn("gpu", `${detail}; without ${cuda.missing.join(", ")}`, "install a newer NVIDIA driver");
}

function ncclCheck({ nccl }: GpuCapabilities, env: Environment): Check {
  if (nccl.reason === undefined) return ok("nccl", `${nccl.version} at ${nccl.path}`);
  const fix = env.MUSTER_NCCL_PATH
    ? "let MUSTER_NCCL_PATH name a libnccl.so.2 of version 2.14 or newer, or unset it"
    : "install NCCL (libnccl2, or the wheel nvidia-nccl-cu13), or set MUSTER_NCCL_PATH to its libnccl.so.2";
  return warn("nccl", nccl.reason, fix);
}

function featureCheck({ features }: GpuCapabilities): Check {
  const works = features.filter((feature) => feature.works).map(({ name }) => name);
  const lacks = features.filter((feature) => !feature.works);
  const without = lacks.map(({ name, note }) => (note ? `${name} (${note})` : name));
  return ok(
    "gpu features",
    [works.join(", "), ...(lacks.length > 0 ? [`without ${without.join(", ")}`] : [])].join("; "),
  );
}

/** Node, processors, memory, WebAssembly, open files. */
import { availableParallelism, freemem, totalmem } from "node:os";
import { formatSize } from "@muster/base";
import { type Check, isAtLeast, missing, ok, warn } from "./check.ts";

const nodeMin = "20.19.0";
const coresMin = 2;
const memoryMinBytes = 2 * 1024 ** 3;
const openFilesMin = 1024;

/** A module whose only function uses 128-bit vectors. */
const simdModule = Uint8Array.of(
  ...[0, 97, 115, 109, 1, 0, 0, 0, 1, 5, 1, 96, 0, 1, 123, 3, 2, 1, 0, 10, 10, 1, 8, 0, 65, 0, 253, 15, 253, 98, 11],
);

/** Checks the machine and its Node. */
export function checkMachine(): readonly Check[] {
  return [checkNode(process.versions.node), checkSimd(), checkCores(), checkMemory(), checkOpenFiles()];
}

/** Checks a version of Node. */
export function checkNode(version: string): Check {
  if (isAtLeast(version, nodeMin)) return ok("node", version);
  return missing("node", `${version} is older than ${nodeMin}`, `install Node ${nodeMin} or newer: https://nodejs.org`);
}

/** Absent under --jitless; the type library of Node does not list it in full. */
function canValidate(wasm: unknown): wasm is { validate(bytes: Uint8Array): boolean } {
  return typeof wasm === "object" && wasm !== null && "validate" in wasm;
}

function checkSimd(): Check {
  const wasm: unknown = Reflect.get(globalThis, "WebAssembly");
  if (canValidate(wasm) && wasm.validate(simdModule)) return ok("wasm simd", "128-bit vectors");
  const fix = "use a Node with WebAssembly SIMD; do not start it with --jitless or --no-wasm-simd";
  return missing("wasm simd", "this Node can not run the engine's vectors", fix);
}

function checkCores(): Check {
  const cores = availableParallelism();
  if (cores >= coresMin) return ok("cpu", `${cores} cores`);
  return warn(
    "cpu",
    `${cores} core`,
    "expect time-outs with more than one replica; raise timing.* or use a larger machine",
  );
}

function checkMemory(): Check {
  const limit = process.constrainedMemory();
  const total = limit > 0 && limit < totalmem() ? limit : totalmem();
  const free = Math.min(process.availableMemory?.() ?? freemem(), total);
  const detail = `${formatSize(free)} free of ${formatSize(total)}`;
  if (free >= memoryMinBytes) return ok("memory", detail);
  return warn("memory", detail, `free at least ${formatSize(memoryMinBytes)}, or run fewer replicas`);
}

function checkOpenFiles(): Check {
  const limit = openFilesLimit();
  if (limit === null) return ok("open files", "no limit known on this system");
  if (limit >= openFilesMin) return ok("open files", Number.isFinite(limit) ? `${limit}` : "no limit");
  return warn("open files", `limit ${limit}`, `raise it: ulimit -n ${openFilesMin}`);
}

/** The soft limit of this process, from Node's own report; `null` where the system has none. */
function openFilesLimit(): number | null {
  // Without this, the report looks up the names of all network peers.
  const report: (NodeJS.ProcessReport & { excludeNetwork?: boolean }) | undefined = process.report;
  if (!report) return null;
  report.excludeNetwork = true;
  const { userLimits } = report.getReport() as { userLimits?: { open_files?: { soft?: number | string } } };
  const soft = userLimits?.open_files?.soft;
  return soft === undefined ? null : soft === "unlimited" ? Number.POSITIVE_INFINITY : Number(soft);
}

/** The fake CUDA driver and NCCL of `native/test/fake`, built when its sources have changed. */
import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { type GpuLibraries, gpuLibrariesOf } from "../../src/index.ts";

const sources = fileURLToPath(new URL("../../../../native/test/fake", import.meta.url));
const builds = fileURLToPath(new URL("../../../../native/test/build", import.meta.url));

/** Whether tests that a real GPU passes, too, have it: `npm run test:gpu`. */
export const hasRealGpu = process.env.MUSTER_TEST_GPU === "1";

/** The libraries of this host's GPU where there is one to test on, else the fake ones. */
export function gpuLibraries(): GpuLibraries {
  if (hasRealGpu) return gpuLibrariesOf(process.env);
  const fake = buildFakeGpu();
  return { cuda: fake, nccl: [fake] };
}

/** How long a build may take on a busy machine. */
export const buildTimeoutMs = 180_000;

/** Path of a library that is both. */
export function buildFakeGpu(): string {
  const names = readdirSync(sources).sort();
  const hash = createHash("sha256");
  for (const name of names) hash.update(readFileSync(join(sources, name)));
  const path = join(builds, `fake-gpu-${hash.digest("hex").slice(0, 16)}.so`);
  if (existsSync(path)) return path;
  mkdirSync(builds, { recursive: true });
  const fresh = `${path}.${process.pid}`;
  const files = names.filter((name) => name.endsWith(".cc"));
  const flags = ["-std=c++20", "-shared", "-fPIC", "-fvisibility=hidden", "-pthread", "-o", fresh];
  const built = spawnSync(process.env.CXX ?? "c++", [...flags, ...files], { cwd: sources, encoding: "utf8" });
  if (built.status !== 0) throw new Error(`the fake GPU does not build: ${built.stderr || String(built.error)}`);
  renameSync(fresh, path); // another test may have built the same meanwhile
  return path;
}

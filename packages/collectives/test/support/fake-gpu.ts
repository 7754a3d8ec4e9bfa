/** The fake CUDA driver and NCCL of `native/test/fake`, built for a test run. */
import { spawnSync } from "node:child_process";
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { makeTempDirectory } from "@muster/testkit";

const sources = fileURLToPath(new URL("../../../../native/test/fake", import.meta.url));

/** A library that is both; `remove` deletes it. It stays loaded in a process that used it. */
export async function buildFakeGpu(): Promise<{ path: string; remove(): Promise<void> }> {
  const folder = await makeTempDirectory();
  const path = join(folder.path, "fake-gpu.so");
  const files = readdirSync(sources).filter((name) => name.endsWith(".cc"));
  const built = spawnSync(
    process.env.CXX ?? "c++",
    ["-std=c++20", "-O1", "-shared", "-fPIC", "-fvisibility=hidden", "-pthread", "-o", path, ...files],
    { cwd: sources, encoding: "utf8" },
  );
  if (built.status !== 0) throw new Error(`the fake GPU does not build: ${built.stderr || String(built.error)}`);
  return { path, remove: () => folder.remove() };
}

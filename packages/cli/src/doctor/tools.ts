/** What the data plane is built with, and whether it is built; GPUs and their libraries, which are only reported. */
import { spawnSync } from "node:child_process";
import { existsSync, readdirSync } from "node:fs";
import { delimiter, join } from "node:path";
import { messageOf } from "@muster/base";
import { nativeCapabilities } from "@muster/collectives";
import { type Check, missing, ok, warn } from "./check.ts";

type Environment = Readonly<Record<string, string | undefined>>;

const tools = [
  { name: "compiler", programs: ["c++", "g++", "clang++"], install: "apt install g++" },
  { name: "cmake", programs: ["cmake"], install: "apt install cmake" },
  { name: "make", programs: ["make", "ninja"], install: "apt install make" },
] as const;

const versionTimeoutMs = 5_000;

/** Checks the addon, and the tools that build it: without the addon they are needed, with it they are only good to have. */
export function checkNative(): readonly Check[] {
  const addon = checkAddon();
  const report = addon.state === "missing" ? missing : warn;
  const builders = tools.map(({ name, programs, install }) => {
    const version = programs.map(versionLineOf).find((line) => line !== null);
    return version ? ok(name, version) : report(name, `none of ${programs.join(", ")} was found`, install);
  });
  return [addon, ...builders];
}

function checkAddon(): Check {
  try {
    const { sharedMemory, reason, version } = nativeCapabilities();
    if (sharedMemory) return ok("data plane", `addon ${version}, shared memory`);
    const fix = "allow memfd_create and Unix sockets in this container, e.g. in its seccomp profile";
    return missing("data plane", `addon ${version}, no shared memory: ${reason ?? "unknown"}`, fix);
  } catch (error) {
    return missing("data plane", `the addon does not load: ${messageOf(error)}`, "npm run setup");
  }
}

/** First line that a program says of itself; `null` when it does not run. */
export function versionLineOf(program: string): string | null {
  const { status, stdout } = spawnSync(program, ["--version"], { encoding: "utf8", timeout: versionTimeoutMs });
  return status === 0 ? (stdout.split("\n")[0]?.trim() ?? "") : null;
}

const libraryFolders = ["lib", "lib64", "lib/x86_64-linux-gnu", "lib/aarch64-linux-gnu", "local/cuda/lib64"];

/** Reports GPUs, CUDA and NCCL. This version computes and moves weights without them. */
export function checkGpu(env: Environment): readonly Check[] {
  const folders = [
    ...(env.LD_LIBRARY_PATH ?? "").split(delimiter),
    ...libraryFolders.map((name) => join("/usr", name)),
  ];
  const fileOf = (prefix: string): string | undefined =>
    folders
      .filter((folder) => folder !== "" && existsSync(folder))
      .flatMap((folder) => readdirSync(folder).map((file) => join(folder, file)))
      .find((path) => path.includes(`/${prefix}`));
  const gpus = readdirSync("/dev").filter((name) => /^nvidia\d+$/.test(name)).length;
  const found = [
    gpus > 0 ? `${gpus} NVIDIA devices` : "no NVIDIA device",
    fileOf("libcuda.so") ?? "no libcuda",
    fileOf("libnccl.so") ?? "no libnccl",
  ];
  return [ok("gpu", `${found.join(", ")}; not used by this version`)];
}

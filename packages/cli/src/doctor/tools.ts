/** What the data plane is built with, and whether it is built. */
import { spawnSync } from "node:child_process";
import { messageOf } from "@muster/base";
import { type GlooCapabilities, glooCapabilities, nativeCapabilities } from "@muster/collectives";
import { type Check, missing, ok } from "./check.ts";

const tools = [
  { name: "compiler", programs: ["c++", "g++", "clang++"], install: "apt install g++" },
  { name: "cmake", programs: ["cmake"], install: "apt install cmake" },
  { name: "make", programs: ["make", "ninja"], install: "apt install make" },
] as const;

const versionTimeoutMs = 5_000;

/** Checks the addon, and the tools that build it, which a machine with an addon does not need. */
export function checkNative(): readonly Check[] {
  const addon = checkAddon();
  const builders = tools.map(({ name, programs, install }) => {
    const version = programs.map(versionLineOf).find((line) => line !== null);
    if (version) return ok(name, version);
    const absent = `none of ${programs.join(", ")} was found`;
    return addon.state === "missing"
      ? missing(name, absent, install)
      : ok(name, `${absent}; only building the data plane needs one, and it is there`);
  });
  return [addon, ...(addon.state === "missing" ? [] : [glooCheck(glooCapabilities())]), ...builders];
}

/** Whether groups can use Gloo, and why not. No job needs it, so it is never amiss. Pure. */
export function glooCheck({ version, path, reason }: GlooCapabilities): Check {
  if (reason === undefined) return ok("gloo", `${version ?? "unknown version"} at ${path}`);
  return ok("gloo", `none, for comparison only: ${reason}; to have it, install libgloo-dev and run npm run setup`);
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

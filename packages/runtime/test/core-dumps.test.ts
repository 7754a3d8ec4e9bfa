import { execFileSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { expect, test } from "vitest";
import { leaveMemoryOutOfDumps } from "../src/process.ts";

const switches = "/proc/self/coredump_filter";
/** Switches of a program that this process starts, see core(5). */
const switchesOfChild = (): number => Number.parseInt(execFileSync("cat", [switches], { encoding: "utf8" }), 16);

test("core dumps hold no memory, also of what a process starts", (context) => {
  context.skip(process.platform !== "linux", "only Linux has these switches");
  const before = readFileSync(switches, "utf8").trim();
  try {
    leaveMemoryOutOfDumps({ MUSTER_CORE_DUMPS: "whole" });
    expect(switchesOfChild()).toBe(Number.parseInt(before, 16));
    leaveMemoryOutOfDumps({});
    expect(switchesOfChild()).toBe(0x10);
  } finally {
    writeFileSync(switches, `0x${before}`);
  }
});

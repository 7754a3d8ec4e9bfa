/** `muster doctor`: whether this machine can run a job, and what to do when it can not. */

import { resolve } from "node:path";
import { exitCodes } from "@muster/runtime";
import type { Command } from "commander";
import { openEngines } from "../composition/engines.ts";
import { runsDefault } from "../composition/runs.ts";
import { checkBroker } from "../doctor/broker.ts";
import type { Check } from "../doctor/check.ts";
import { checkFolders } from "../doctor/folders.ts";
import { checkGpu } from "../doctor/gpu.ts";
import { checkMachine } from "../doctor/machine.ts";
import { checkPartitions } from "../doctor/partitions.ts";
import { checkNative } from "../doctor/tools.ts";
import { cleanLine } from "../report/text.ts";
import { listed } from "./list.ts";

interface Options {
  readonly runs: string;
  readonly engine: string;
  readonly url?: string;
  readonly json?: boolean;
}

/** Adds the command. */
export function addDoctorCommand(program: Command): void {
  listed(program, "doctor")
    .option("--runs <folder>", "folder of the runs", runsDefault)
    .option("--engine <name>", "engine that is checked, too: a name, or the path of a module", "embedded")
    .option("--url <address>", "inference server that is looked at, with --engine openai, sglang or vllm")
    .option("--json", "write one line of JSON: ok, and the checks")
    .action(async ({ runs, json, url, engine: named }: Options) => {
      const engine = /[\\/]|\.[cm]?[jt]s$/.test(named) ? resolve(named) : named;
      const checks = [
        ...checkMachine(),
        ...checkNative(),
        ...(await (await openEngines([engine])).of(engine).doctor(url === undefined ? {} : { url })),
        await checkBroker(process.env),
        ...(await checkFolders(resolve(runs))),
        ...(await checkGpu(process.env)),
        checkPartitions(),
      ];
      const isReady = checks.every(({ state }) => state !== "missing");
      process.stdout.write(`${json ? JSON.stringify({ ok: isReady, checks }) : checksText(checks)}\n`);
      process.exitCode = isReady ? exitCodes.ok : exitCodes.failed;
    });
}

/** Writes the checks for a person, each fix below its fault, and a sentence at the end. Pure. */
export function checksText(checks: readonly Check[]): string {
  const width = Math.max(...checks.map(({ name }) => name.length));
  const lines = checks.flatMap(({ state, name, detail, fix }) => [
    `${state.padEnd(7)}  ${name.padEnd(width)}  ${cleanLine(detail, 300)}`,
    ...(fix === null ? [] : [`${" ".repeat(width + 11)}fix: ${fix}`]),
  ]);
  return [...lines, "", verdictOf(checks)].join("\n");
}

function verdictOf(checks: readonly Check[]): string {
  const count = (state: Check["state"]): number => checks.filter((check) => check.state === state).length;
  const warnings = count("warn") > 0 ? `; warnings: ${count("warn")}` : "";
  return count("missing") > 0
    ? `this machine can not run a job yet; missing: ${count("missing")}${warnings}`
    : `this machine can run a job${warnings}`;
}

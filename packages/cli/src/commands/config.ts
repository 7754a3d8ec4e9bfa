/** `muster config`: what a job file means, and whether it means anything. */
import { resolve } from "node:path";
import { hasCode } from "@muster/base";
import { exitCodes } from "@muster/runtime";
import { explainConfig, type LoadedJob, type Setting } from "@muster/runtime/config";
import type { Command } from "commander";
import { loadJobFile } from "../composition/job-file.ts";
import { collect, jobFileDefault } from "./common.ts";
import { listed } from "./list.ts";

interface Options {
  readonly set: readonly string[];
  readonly explain?: boolean;
  readonly json?: boolean;
}

/** Adds the commands. */
export function addConfigCommands(program: Command): void {
  const config = listed(program, "config");
  withSources(config.command("print").description("print every key of a job with its value, as a job file"))
    .option("--explain", "say where each value comes from: default, file and line, environment, or flag")
    .option("--json", "write JSON: the compiled configuration, or with --explain a list of keys")
    .action(async (file: string, options: Options) => {
      const job = await load(file, options);
      process.stdout.write(options.json ? jsonOf(job, options) : tomlOf(settingsOf(job), options.explain === true));
    });
  withSources(config.command("check").description("check a job file; every fault is listed"))
    .option("--json", "write one line of JSON: ok, and the faults")
    .action(async (file: string, options: Options) => {
      process.exitCode = await (options.json ? checkJson(file, options) : checkText(file, options));
    });
}

function withSources(command: Command): Command {
  return command
    .argument("[file]", "job file", jobFileDefault)
    .option("--set <key=value>", "set any key, as muster run does; may be repeated", collect, []);
}

async function load(file: string, { set }: Options): Promise<LoadedJob> {
  return await loadJobFile({ file: resolve(file), set });
}

function jsonOf(job: LoadedJob, { explain }: Options): string {
  return `${JSON.stringify(explain ? settingsOf(job).map(({ key, value, source }) => ({ key, value, source })) : job.config, null, 2)}\n`;
}

/** Every setting; the folder of weights as it was found, so that what is printed means the same wherever it is stored. */
function settingsOf(job: LoadedJob): readonly Setting[] {
  const { weights } = job.config;
  return explainConfig(job).map((setting) =>
    setting.kind === "source" && "path" in weights ? { ...setting, value: `${weights.kind}:${weights.path}` } : setting,
  );
}

/** A job file that means the same, with every key. */
function tomlOf(settings: readonly Setting[], isExplained: boolean): string {
  const lines: string[] = [];
  let current = "";
  for (const { key, kind, value, source } of settings) {
    const [section = "", name = ""] = key.split(/\.(.*)/s);
    if (section !== current) lines.push(...(current ? [""] : []), `[${section}]`);
    current = section;
    const isBare = ["integer", "number", "boolean"].includes(kind);
    const line = `${name} = ${isBare ? value : JSON.stringify(value)}`;
    lines.push(isExplained ? `${line.padEnd(40)} # ${JSON.stringify(source).slice(1, -1)}` : line);
  }
  return `${lines.join("\n")}\n`;
}

async function checkText(file: string, options: Options) {
  const { config } = await load(file, options);
  process.stdout.write(`${file} is sound: job ${config.job}, ${config.steps} steps of ${config.task.name}\n`);
  return exitCodes.ok;
}

async function checkJson(file: string, options: Options) {
  const problems = await problemsOf(file, options);
  process.stdout.write(`${JSON.stringify({ file, ok: problems.length === 0, problems })}\n`);
  return problems.length === 0 ? exitCodes.ok : exitCodes.badInput;
}

async function problemsOf(file: string, options: Options): Promise<readonly string[]> {
  try {
    await load(file, options);
    return [];
  } catch (error) {
    if (!hasCode(error, "MUSTER_ERR_CONFIG_INVALID")) throw error;
    const lines = String(error.params.list).split(/^ {2}- /m);
    return lines.map((line) => line.trim()).filter(Boolean);
  }
}

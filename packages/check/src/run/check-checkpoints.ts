/** The checkpoints of a run: whole, byte by byte, and of the weights that were committed. */
import { readdirSync, statSync } from "node:fs";
import { basename, join, relative } from "node:path";
import { MusterError, messageOf } from "@muster/base";
import { type CheckpointInfo, verifyCheckpoint } from "@muster/checkpoint";
import { type Body, parseCheckpointName } from "@muster/protocol";
import { digestsOf } from "../fact-checker.ts";
import type { WantedVersions } from "./commits.ts";
import type { Findings } from "./findings.ts";
import { type RunFolder, readIfThere } from "./run-folder.ts";

/** The folder of a run's checkpoints, and those in it. */
export interface CheckpointFolder {
  readonly path: string;
  readonly names: readonly string[];
}

/** Durable checkpoints as the events tell of them, by the name of their folder. */
export type KeptCheckpoints = ReadonlyMap<string, Body<"checkpoint.kept">>;

/** Finds the checkpoints: where the job kept them, or beside its files when the folder was moved. */
export function findCheckpoints({ path, config }: RunFolder): CheckpointFolder {
  const places = [config.checkpoint.directory, join(path, "checkpoints")];
  const found = places.find((place) => statSync(place, { throwIfNoEntry: false })?.isDirectory());
  const names = found ? readdirSync(found).filter((name) => parseCheckpointName(name) !== null) : [];
  return { path: found ?? config.checkpoint.directory, names: names.sort() };
}

/** What checkpoints are compared with. */
export interface CheckpointsOptions {
  readonly findings: Findings;
  readonly kept: KeptCheckpoints;
  readonly versions: WantedVersions;
  /** Events are known from the first on: a version that none of them commits was not committed. */
  readonly isWhole: boolean;
  readonly signal?: AbortSignal | undefined;
  readonly onBytes?: ((bytes: number) => void) | undefined;
}

/** Checks all of them. @returns How many are whole. */
export async function checkCheckpoints(
  folder: RunFolder,
  { path, names }: CheckpointFolder,
  options: CheckpointsOptions,
): Promise<number> {
  const { findings } = options;
  if (names.length === 0) {
    const why = `none lies in ${path}`;
    if (options.kept.size > 0) findings.skip("checkpoints", `${why}: it was moved, or they are on another host`);
    return 0;
  }
  let whole = 0;
  for (const name of names) {
    findings.at({ file: shown(folder, join(path, name)) });
    if (await checkOne(folder, join(path, name), options)) whole += 1;
  }
  const latest = readIfThere(join(path, "latest"))?.trim();
  if (latest !== undefined && parseCheckpointName(latest) && !names.includes(latest))
    findings.add("S26", `the newest checkpoint is said to be ${latest}, and is not there`, {
      file: shown(folder, join(path, "latest")),
    });
  return whole;
}

async function checkOne(folder: RunFolder, path: string, options: CheckpointsOptions): Promise<boolean> {
  const { findings, signal } = options;
  try {
    const info = await verifyCheckpoint(path, signal ? { signal } : {});
    options.onBytes?.(info.bytes);
    compare(folder, info, options);
    return true;
  } catch (error) {
    signal?.throwIfAborted();
    if (!(error instanceof MusterError)) throw error;
    findings.add("S25", messageOf(error));
    return false;
  }
}

/** The job's own words on a checkpoint that is whole. */
function compare(
  { config }: RunFolder,
  info: CheckpointInfo,
  { findings, kept, versions, isWhole }: CheckpointsOptions,
): void {
  const { step, version, lineage, sections, manifestDigest, job } = info;
  findings.require(job === config.job, "S25", () => `its manifest is of the job ${job}`);
  const told = kept.get(basename(info.path));
  if (told) {
    const isSame = told.step === step && told.version === version && told.lineage === lineage;
    findings.require(
      isSame,
      "S25",
      () =>
        `its manifest has step ${step}, version ${version} in lineage ${lineage}; it was told as step ${told.step}, version ${told.version} in lineage ${told.lineage}`,
    );
    findings.require(
      told.manifestDigest === manifestDigest,
      "S25",
      () => `its manifest has the digest ${manifestDigest}; when it was saved that was ${told.manifestDigest}`,
    );
  }
  const commit = versions.of({ lineage, version });
  if (commit)
    findings.require(
      digestsOf(commit.sections) === digestsOf(sections),
      "S25",
      () => `it holds ${digestsOf(sections)}; step ${commit.step} was committed with ${digestsOf(commit.sections)}`,
    );
  else if (version > 0 && isWhole && config.weights.kind === "seed")
    findings.add("S25", `it holds version ${version}, which no event commits`);
}

function shown({ path }: RunFolder, file: string): string {
  const inside = relative(path, file);
  return inside.startsWith("..") ? file : inside;
}

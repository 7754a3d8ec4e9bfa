/** Where a run writes: its folder, and the sockets of its data plane. */
import { accessSync, constants, mkdtempSync, rmSync, statfsSync, statSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { formatSize, messageOf } from "@muster/base";
import { socketDirectoryOf } from "../run/run-directory.ts";
import { type Check, missing, ok, warn } from "./check.ts";

const spaceMinBytes = 512 * 1024 ** 2;
const spaceGoodBytes = 4 * 1024 ** 3;

/** Longest folder of sockets that a job may name (see `data.socket_directory`). */
const socketFolderMax = 80;
/** Longest name of a job, and one that `muster run` would make up. */
const jobNameMax = 48;
const jobNameUsual = "dates-20250101-120000".length;

/** Checks the folder of runs, made or not yet made, and the folder of sockets. */
export async function checkFolders(runs: string): Promise<readonly Check[]> {
  return [checkRuns(runs), await checkSockets()];
}

function checkRuns(runs: string): Check {
  const folder = existingPart(runs);
  const fix = "choose another with --runs";
  try {
    if (!statSync(folder).isDirectory()) return missing("runs", `${folder} is no folder`, fix);
    accessSync(folder, constants.W_OK | constants.X_OK);
    const { bavail, bsize } = statfsSync(folder);
    const detail = `${formatSize(bavail * bsize)} free for ${runs}`;
    if (bavail * bsize < spaceMinBytes) return missing("runs", detail, `free ${formatSize(spaceMinBytes)}, or ${fix}`);
    if (bavail * bsize >= spaceGoodBytes) return ok("runs", detail);
    return warn("runs", detail, `free ${formatSize(spaceGoodBytes)} for long runs, or ${fix}`);
  } catch (error) {
    return missing("runs", `${runs} can not be written: ${messageOf(error)}`, fix);
  }
}

/** The longest part of a path that exists. */
function existingPart(path: string): string {
  return statSync(path, { throwIfNoEntry: false }) || dirname(path) === path ? path : existingPart(dirname(path));
}

async function checkSockets(): Promise<Check> {
  const name = "sockets";
  const fix = "set TMPDIR to a short folder that can be written, or data.socket_directory in the job file";
  try {
    await openSocket();
  } catch (error) {
    return missing(name, `no Unix socket can be opened in ${tmpdir()}: ${messageOf(error)}`, fix);
  }
  const room = socketFolderMax - socketDirectoryOf("", "").length;
  if (room >= jobNameMax) return ok(name, `in ${tmpdir()}`);
  if (room < jobNameUsual) return missing(name, `${tmpdir()} is too long for addresses of sockets`, fix);
  return warn(name, `in ${tmpdir()}, which is so long that job names must not exceed ${room} characters`, fix);
}

async function openSocket(): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), "muster-doctor-"));
  const server = createServer();
  try {
    await new Promise<void>((resolve, reject) => {
      server.once("error", reject);
      server.listen(join(folder, "s"), resolve);
    });
  } finally {
    server.close();
    rmSync(folder, { recursive: true, force: true });
  }
}

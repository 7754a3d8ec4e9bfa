/** Files of trajectories in a folder: written so that each is whole or not there, and looked through without trust. */
import { createHash } from "node:crypto";
import { open, readdir, rename, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { messageOf } from "@muster/base";
import {
  digestsOf,
  type GroupReceipt,
  type JobConfig,
  type Section,
  sectionsOfPart,
  type TrajectoryGroup,
} from "@muster/protocol";
import { makeFolderSync } from "@muster/runtime";
import {
  type ChangedJob,
  differenceOfSource,
  encodeTrajectories,
  headBytesMax,
  readBody,
  readHead,
  type TrajectoryContent,
  type TrajectoryHead,
  trajectoryFileEnd,
} from "./format.ts";

/** A file that may be read, by its first line and its length. */
export interface TrajectoryFile {
  readonly path: string;
  readonly head: TrajectoryHead;
  readonly bodyAt: number;
}

/** A file, or a part of one, that counts for nothing, and why. */
export interface RefusedFile {
  readonly path: string;
  readonly reason: string;
}

/** What is in a folder. */
export interface TrajectoryFolder {
  /** By step, then by name. */
  readonly files: readonly TrajectoryFile[];
  readonly refused: readonly RefusedFile[];
}

/** Files of a folder that are looked at. */
const filesMax = 100_000;

/** Looks through a folder. One bad file costs nothing but itself. @throws What the file system throws for the folder. */
export async function scanTrajectories(directory: string, config: ChangedJob): Promise<TrajectoryFolder> {
  const names = (await readdir(directory)).filter((name) => name.endsWith(trajectoryFileEnd)).sort();
  const files: TrajectoryFile[] = [];
  const refused: RefusedFile[] = names.slice(filesMax).map((name) => ({
    path: join(directory, name),
    reason: `a folder has at most ${filesMax} files`,
  }));
  for (const name of names.slice(0, filesMax)) {
    const path = join(directory, name);
    const found = await lookAt(path, config);
    if (typeof found === "string") refused.push({ path, reason: found });
    else files.push(found);
  }
  files.sort((a, b) => a.head.step - b.head.step);
  return { files, refused };
}

async function lookAt(path: string, config: ChangedJob): Promise<TrajectoryFile | string> {
  try {
    if (!(await stat(path)).isFile()) return "it is no file";
    const file = await open(path, "r");
    try {
      const { size } = await file.stat();
      const start = Buffer.alloc(Math.min(size, headBytesMax));
      const { bytesRead } = await file.read(start, 0, start.length, 0);
      const read = readHead(start.subarray(0, bytesRead));
      if (typeof read === "string") return read;
      const { head, bodyAt } = read;
      if (size !== bodyAt + head.bytes)
        return `it has ${size - bodyAt} bytes after its first line, which says ${head.bytes}: it is torn`;
      return differenceOfSource(head, config) ?? { path, head, bodyAt };
    } finally {
      await file.close();
    }
  } catch (error) {
    return `it can not be read: ${messageOf(error)}`;
  }
}

/**
 * Tells which groups of a job are in files already. What another run sampled by other weights, or the same one before it went back, is not in them,
 * though it has the same place. Pure.
 *
 * @param weights - Of the job, by version, as far as they are known.
 */
export function writtenIn(
  files: readonly Pick<TrajectoryFile, "head">[],
  { job, weights }: { readonly job: string; readonly weights: ReadonlyMap<number, readonly Section[]> },
): (group: GroupPlace) => boolean {
  const keyOf = ({ step, index, attempt, version }: GroupPlace): string => `${step}.${index}/${attempt}/${version}`;
  const isSame = ({ head }: Pick<TrajectoryFile, "head">): boolean => {
    const own = servingOf(weights.get(head.weights.version) ?? []);
    const said = servingOf(head.weights.sections);
    return own === "" || said === "" ? head.job === job : own === said;
  };
  const same = files.filter(isSame).map(({ head }) => head);
  const written = new Set(same.flatMap(({ step, groups }) => groups.map((group) => keyOf({ step, ...group }))));
  return (group) => written.has(keyOf(group));
}

type GroupPlace = Pick<GroupReceipt, "step" | "index" | "attempt" | "version">;

const servingOf = (sections: readonly Section[]): string => digestsOf(sectionsOfPart(sections, "serving"));

/** The groups of a file, every byte checked, or a sentence that says why there are none. */
export async function loadTrajectories(
  { path, head, bodyAt }: TrajectoryFile,
  config: JobConfig,
): Promise<readonly TrajectoryGroup[] | string> {
  try {
    const file = await open(path, "r");
    try {
      const body = Buffer.alloc(head.bytes);
      const { bytesRead } = await file.read(body, 0, body.length, bodyAt);
      return readBody(head, body.subarray(0, bytesRead), config);
    } finally {
      await file.close();
    }
  } catch (error) {
    return `it can not be read: ${messageOf(error)}`;
  }
}

/** Writes a file that is whole or not there, also when the power fails. Its name comes from what is in it. @returns Its path. */
export async function writeTrajectories(directory: string, content: TrajectoryContent): Promise<string> {
  const bytes = encodeTrajectories(content);
  const digest = createHash("sha256").update(bytes).digest("hex").slice(0, 12);
  const first = Math.min(...content.groups.map(({ group }) => group.index));
  const place = `step-${`${content.step}`.padStart(7, "0")}-from-${`${first}`.padStart(4, "0")}-${digest}`;
  const path = join(directory, `${place}${trajectoryFileEnd}`);
  const partial = `${path}.${process.pid}.new`;
  makeFolderSync(directory);
  try {
    // A process of the same number may have been killed over it.
    await rm(partial, { force: true });
    const file = await open(partial, "wx", 0o600);
    try {
      await file.writeFile(bytes);
      await file.sync();
    } finally {
      await file.close();
    }
    await rename(partial, path);
  } catch (error) {
    await rm(partial, { force: true });
    throw error;
  }
  const folder = await open(directory, "r");
  try {
    await folder.sync();
  } finally {
    await folder.close();
  }
  return path;
}

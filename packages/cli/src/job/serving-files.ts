/**
 * How a router finds the samplers of a job that serve on its host: each writes a file with its address into the job's folder, and takes it away when it
 * leaves. The file of one that was killed stays; its address is then found dead, as any other.
 */
import { readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { every, type Logger, messageOf } from "@muster/base";
import { makeOwnFolderSync, systemClock } from "@muster/runtime";
import { z } from "zod";

const servingSchema = z.strictObject({ url: z.string().max(300), incarnation: z.string().min(1).max(128) });

const folderOf = (directory: string): string => join(directory, "serving");
const bytesMax = 4_096;
const filesMax = 4_096;
const lookMs = 500;

/** Says where a sampler serves. @returns Takes the word back. */
export function writeServing(directory: string, id: string, serving: z.infer<typeof servingSchema>): () => void {
  const folder = folderOf(directory);
  makeOwnFolderSync(folder);
  const path = join(folder, `${id}.json`);
  writeFileSync(path, `${JSON.stringify(serving)}\n`, { mode: 0o600 });
  return () => rmSync(path, { force: true });
}

/** The part of a router that is told of samplers. */
export interface SamplerTable {
  add(url: string): boolean;
  remove(url: string): boolean;
}

type Known = ReadonlyMap<string, z.infer<typeof servingSchema>>;

/** Keeps a router's workers like the files of a job's folder. What cannot be read just now stays as it was. @returns Ends that. */
export function followServing(directory: string, router: SamplerTable, { logger }: { logger: Logger }): () => void {
  let known: Known = new Map();
  let trouble = "";
  const look = (): void => {
    const found = readServing(directory, known, logger);
    for (const [name, { url, incarnation }] of found) {
      const before = known.get(name);
      if (before && before.url !== url) router.remove(before.url);
      if (before?.url !== url || before.incarnation !== incarnation) router.add(url);
    }
    for (const [name, { url }] of known) if (!found.has(name)) router.remove(url);
    known = found;
  };
  const tryLook = (): void => {
    try {
      look();
      trouble = "";
    } catch (error) {
      const reason = messageOf(error);
      if (reason !== trouble)
        logger.warn({ reason }, "the samplers of the job cannot be followed; those that are known stay");
      trouble = reason;
    }
  };
  look();
  return every(systemClock(), lookMs, tryLook);
}

function readServing(directory: string, known: Known, logger: Logger): Known {
  const found = new Map<string, z.infer<typeof servingSchema>>();
  for (const name of namesIn(folderOf(directory))) {
    try {
      const text = readFileSync(join(folderOf(directory), name), "utf8").slice(0, bytesMax);
      found.set(name, servingSchema.parse(JSON.parse(text)));
    } catch (error) {
      // It may just be written, or just have gone: the next look is soon.
      logger.debug({ name, reason: messageOf(error) }, "the file of a sampler can not be read");
      const before = known.get(name);
      if (before) found.set(name, before);
    }
  }
  return found;
}

function namesIn(folder: string): readonly string[] {
  try {
    return readdirSync(folder)
      .filter((name) => name.endsWith(".json"))
      .slice(0, filesMax);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return [];
    throw error;
  }
}

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

/** Keeps a router's workers like the files of a job's folder. @returns Ends that. */
export function followServing(directory: string, router: SamplerTable, { logger }: { logger: Logger }): () => void {
  let known = new Map<string, { readonly url: string; readonly incarnation: string }>();
  const look = (): void => {
    const found = readServing(directory, logger);
    for (const [id, { url, incarnation }] of found) {
      const before = known.get(id);
      if (before && before.url !== url) router.remove(before.url);
      if (before?.url !== url || before.incarnation !== incarnation) router.add(url);
    }
    for (const [id, { url }] of known) if (!found.has(id)) router.remove(url);
    known = found;
  };
  look();
  return every(systemClock(), lookMs, look);
}

function readServing(directory: string, logger: Logger): Map<string, z.infer<typeof servingSchema>> {
  const found = new Map<string, z.infer<typeof servingSchema>>();
  for (const name of namesIn(folderOf(directory))) {
    try {
      const text = readFileSync(join(folderOf(directory), name), "utf8").slice(0, bytesMax);
      found.set(name, servingSchema.parse(JSON.parse(text)));
    } catch (error) {
      // It may just be written, or just have gone: the next look is soon.
      logger.debug({ name, reason: messageOf(error) }, "the file of a sampler can not be read");
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

/**
 * Files of lines that grow as long as a job goes on are kept in parts: `events.jsonl` is the newest, `events.1.jsonl`, `events.2.jsonl` and so on were
 * written before it. Of a long job the oldest are gone, and the numbers go on.
 */
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";

/** Numbers of the earlier parts of `<name>.jsonl`, in order. */
export function partNumbers(folder: string, name: string): readonly number[] {
  const form = new RegExp(`^${name}\\.(\\d{1,9})\\.jsonl$`);
  return (existsSync(folder) ? readdirSync(folder) : [])
    .flatMap((file) => form.exec(file)?.[1] ?? [])
    .map(Number)
    .sort((a, b) => a - b);
}

/** Name of a part; without a number that of the newest one. */
export function partName(name: string, number?: number): string {
  return number === undefined ? `${name}.jsonl` : `${name}.${number}.jsonl`;
}

/** Names of all parts that are there, the oldest first. */
export function partsIn(folder: string, name: string): readonly string[] {
  const newest = partName(name);
  const earlier = partNumbers(folder, name).map((number) => partName(name, number));
  return existsSync(join(folder, newest)) ? [...earlier, newest] : earlier;
}

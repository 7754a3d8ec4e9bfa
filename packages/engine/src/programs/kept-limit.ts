/**
 * A mark that no process sheds by accident: the hard limit of file locks, which Linux hands on to whatever a process starts and has not used since 2.4.25. An
 * empty environment, another session and the end of its parent leave it as it is. Each life of a replica has a range of such limits, and each program that the
 * replica starts one limit of this range.
 */
import { spawnSync } from "node:child_process";
import { createHash, randomBytes } from "node:crypto";
import { isAbsolute } from "node:path";
import { isThere, limiter } from "./command.ts";
import { textOf } from "./proc-files.ts";

/** Bits for the programs of one life; 35 more, for the life, are above them. */
const ownBits = 28n;
const lifeHexDigits = 9;
const own = (1n << ownBits) - 1n;

/** The limit of a process; `null` where it has none, or is gone. */
export function keptLimitOf(pid: number | "self"): bigint | null {
  const hard = /^Max file locks +\S+ +(\d+)/m.exec(textOf(`/proc/${pid}/limits`))?.[1];
  return hard === undefined ? null : BigInt(hard);
}

/** The highest limit of the life with this mark: that of its first process. Pure. */
export function lifeLimitOf(mark: string): bigint {
  const digits = createHash("sha256").update(mark).digest("hex").slice(0, lifeHexDigits);
  return ((BigInt(`0x${digits}`) >> 1n) << ownBits) | own;
}

/** Whether a limit is in the range of the life with this mark. Pure. */
export function isOfLife(limit: bigint | null, mark: string): boolean {
  return limit !== null && limit >> ownBits === lifeLimitOf(mark) >> ownBits;
}

let can: boolean | undefined;

/** Words that run a program with this limit; the same words where the host can not set it (`prlimit` of util-linux, Linux itself). */
export function withKeptLimit(limit: bigint, words: readonly string[]): readonly string[] {
  const setting = [limiter, `--locks=${limit}:${limit}`, "--"];
  const [program = ""] = words;
  // One that is not there is named by its own error.
  if (isAbsolute(program) && !isThere(program)) return words;
  can ??= isThere(limiter) && spawnSync(limiter, [...setting.slice(1), "true"], { stdio: "ignore" }).status === 0;
  return can ? [...setting, ...words] : words;
}

/** The words of the first process of a life. Where this process has such a limit itself, its range is not for others, and the words are the same. */
export function lifeWords(mark: string, words: readonly string[]): readonly string[] {
  return keptLimitOf("self") === null ? withKeptLimit(lifeLimitOf(mark), words) : words;
}

let base: bigint | null | undefined;
let drawn = 0n;

/** A limit for one more program of this process; `null` where its own limit has no room for any. */
export function drawKeptLimit(): bigint | null {
  if (base === undefined) base = baseBelow(keptLimitOf("self"));
  // After as many programs the first ones have ended.
  drawn = (drawn % (own - 1n)) + 1n;
  return base === null ? null : base + drawn;
}

/** Where the limits begin that a process with this one may give. */
function baseBelow(limit: bigint | null): bigint | null {
  if (limit === null) return lifeLimitOf(randomBytes(16).toString("hex")) - own;
  return (limit & own) === own ? limit - own : null;
}

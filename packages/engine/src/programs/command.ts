/** How a worker is started: its command, its environment, and what keeps it from outliving this process. */
import { accessSync, constants } from "node:fs";

/** A program with its arguments. */
export interface WorkerCommand {
  readonly words: readonly string[];
  /** Folder that it starts in; absent: that of who starts it. */
  readonly directory?: string;
  /** The whole environment, but for what the protocol adds. */
  readonly env: Readonly<Record<string, string>>;
}

/**
 * Takes a line apart into words: separated by spaces, quoted with ' or " where they have some. There is no shell and nothing is replaced. Pure.
 *
 * @returns `null` for a quote that is not closed.
 */
export function wordsOf(line: string): readonly string[] | null {
  const pattern = /\s*(?:'([^']*)'|"([^"]*)"|([^\s'"]+))/y;
  const words: string[] = [];
  let isJoined = false;
  for (const text = line.trimEnd(); pattern.lastIndex < text.length; ) {
    const from = pattern.lastIndex;
    const match = pattern.exec(text);
    if (!match) return null;
    const word = match[1] ?? match[2] ?? match[3] ?? "";
    isJoined = from > 0 && !/^\s/.test(match[0]);
    if (isJoined) words.push(`${words.pop()}${word}`);
    else words.push(word);
  }
  return words;
}

/** Reads `NAME=value` words. @returns `null` for a word that is none. Pure. */
export function environmentIn(line: string): Readonly<Record<string, string>> | null {
  const entries = wordsOf(line)?.map((word) => /^([A-Za-z_]\w*)=(.*)$/s.exec(word)) ?? [null];
  if (entries.includes(null)) return null;
  return Object.fromEntries(entries.map((match) => [match![1], match![2]]));
}

/** What a worker's environment has of its parent's: not what is meant for Muster itself, but the mark by which a node finds what it started. Pure. */
export function inheritedOf(env: Readonly<Record<string, string | undefined>>): Record<string, string> {
  const kept = Object.entries(env).filter(
    (entry): entry is [string, string] =>
      entry[1] !== undefined && (entry[0] === "MUSTER_LIFE_MARK" || !/^(MUSTER_|NATS_|NODE_OPTIONS$)/.test(entry[0])),
  );
  return Object.fromEntries(kept);
}

const guard = "/usr/bin/setpriv";
/** Starts a program with other limits. */
export const limiter = "/usr/bin/prlimit";

/** The command with what ends it when this process ends, where the host has that (util-linux on Linux). */
export function guarded(words: readonly string[]): readonly string[] {
  // A worker that reads its socket ends by itself, and a node ends the group of its replica.
  return isThere(guard) ? [guard, "--pdeathsig", "KILL", "--", ...words] : words;
}

/** The command with a limit of what each of its processes may write to in memory, which the kernel keeps, where the host has that (util-linux). */
export function limited(words: readonly string[], bytes: number): readonly string[] {
  return isThere(limiter) ? [limiter, `--data=${bytes}`, "--", ...words] : words;
}

/** Whether the host has this program. */
export function isThere(program: string): boolean {
  try {
    accessSync(program, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

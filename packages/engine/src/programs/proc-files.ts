/** What Linux says of processes, as files. */
import { readdirSync, readFileSync } from "node:fs";

/** The entries of a folder that are numbers: of `/proc`, the processes of this host. */
export function numbersIn(folder: string): number[] {
  try {
    return readdirSync(folder).map(Number).filter(Number.isInteger);
  } catch {
    return []; // it ended just now, or this system has no such folder
  }
}

/** The text of a file; empty where there is none. */
export function textOf(path: string): string {
  try {
    return readFileSync(path, "latin1");
  } catch {
    return ""; // it ended just now, or belongs to somebody else
  }
}

/**
 * Which end-to-end files continuous integration runs at which commit: what Muster promises first at each of them, the others at every second one. By hand
 * (`MUSTER_CI_TURN` unset) all of them run.
 */
import { basename } from "node:path";

/** Names of the files that run at every commit: those of death and return, and those that cut in halves by themselves. */
const everyTurn = [
  "check",
  "newcomer",
  "resume",
  "same-hash",
  "saved-work",
  "several-hosts",
  "snapshots",
  "unsupervised",
];

const ending = ".test.ts";

/**
 * The files that wait for the next commit. A file's own name says to which half it belongs, so that a new one moves no other.
 *
 * @param {readonly string[]} files - Their paths.
 * @param {string | undefined} turn - Number of the commit; without one nothing waits.
 * @returns {readonly string[]}
 */
export function filesThatWait(files, turn) {
  if (turn === undefined) return [];
  return files.filter((file) => {
    const name = basename(file, ending);
    return file.endsWith(ending) && !everyTurn.includes(name) && name.length % 2 !== Number(turn) % 2;
  });
}

/** What is said of them: one line. @param {readonly string[]} waiting @param {number} all */
export function waitingLine(waiting, all) {
  const names = waiting.map((file) => basename(file, ending)).join(", ");
  return `${waiting.length} of ${all} end-to-end files: the next commit's turn runs them: ${names}`;
}

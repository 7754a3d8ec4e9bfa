/** CPU time of a process and its descendants, read from /proc (Linux). */
import { readdirSync, readFileSync } from "node:fs";

/** The kernel counts CPU time in ticks of 10 ms on every Linux that Node runs on (`getconf CLK_TCK`). */
const tickMs = 10;

/**
 * @param {number} root Process id.
 * @returns {{ pid: number, command: string, cpuMs: number }[]} The process and its descendants that live now, with what each has used so far.
 */
export function processTree(root) {
  const all = readdirSync("/proc").flatMap((name) => (/^\d+$/.test(name) ? (statOf(Number(name)) ?? []) : []));
  const tree = all.filter(({ pid }) => pid === root);
  for (const parent of tree) tree.push(...all.filter(({ ppid }) => ppid === parent.pid));
  return tree.map(({ pid, cpuMs }) => ({ pid, cpuMs, command: commandOf(pid) }));
}

/** @param {number} pid */
function statOf(pid) {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, "utf8");
    const fields = text.slice(text.lastIndexOf(")") + 2).split(" ");
    return { pid, ppid: Number(fields[1]), cpuMs: (Number(fields[11]) + Number(fields[12])) * tickMs };
  } catch {
    return null; // it ended while we looked
  }
}

/** @param {number} pid */
function commandOf(pid) {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, "utf8").split("\0").join(" ");
  } catch {
    return "";
  }
}

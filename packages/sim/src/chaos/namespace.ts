/**
 * Another host for a chaos run: a network namespace that one link joins to this one, so that firewall rules can cut it off. Needs Linux,
 * root, iproute2 and nftables. Its name holds the process that made it: what a killed one left is removed by the next.
 */
import { execFileSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { networkInterfaces } from "node:os";

/** A second host. */
export interface FarNamespace {
  readonly name: string;
  /** Network that both hosts are in, e.g. `10.215.3.0/24`. */
  readonly network: string;
  /** This host's address in it. */
  readonly nearAddress: string;
  readonly farAddress: string;
  /** Command line that runs what follows it on the second host. */
  readonly wrapper: readonly string[];
  /** Ends whatever still runs there, and removes it. Harmless twice. */
  close(): void;
}

const namePattern = /^much(\d+)$/;
const namesFolder = "/run/netns";
const commandMs = 10_000;

/** Opens a second host. @throws Error of the command that failed; nothing is left of it then. */
export function openFarNamespace(): FarNamespace {
  removeLeftovers();
  const name = `much${process.pid}`;
  const prefix = freePrefix();
  const [near, far] = [`${prefix}.254`, `${prefix}.1`];
  try {
    ip("netns", "add", name);
    ip("link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", name);
    ip("addr", "add", `${near}/24`, "dev", name);
    ip("link", "set", name, "up");
    ip("-n", name, "link", "set", "lo", "up");
    ip("-n", name, "addr", "add", `${far}/24`, "dev", "eth0");
    ip("-n", name, "link", "set", "eth0", "up");
  } catch (error) {
    remove(name);
    throw error;
  }
  return {
    name,
    network: `${prefix}.0/24`,
    nearAddress: near,
    farAddress: far,
    wrapper: ["ip", "netns", "exec", name],
    close: () => remove(name),
  };
}

/** Removes the namespaces of chaos runs that are gone. @returns Their names. */
export function removeLeftovers(): readonly string[] {
  const left = namespaces().filter((name) => !isChaos(Number(namePattern.exec(name)?.[1] ?? process.pid)));
  for (const name of left) remove(name);
  return left;
}

function namespaces(): readonly string[] {
  try {
    return readdirSync(namesFolder).filter((name) => namePattern.test(name));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return [];
    throw error;
  }
}

/** True while the process that made a namespace runs; its number may have gone to another program since. */
function isChaos(pid: number): boolean {
  if (pid === process.pid) return true;
  try {
    return readFileSync(`/proc/${pid}/cmdline`, "utf8").includes("muster");
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === "ENOENT" || code === "ESRCH") return false;
    throw error;
  }
}

/** The link goes with the namespace that holds its other end, and that with its last process. */
function remove(name: string): void {
  if (!namespaces().includes(name)) return;
  for (const pid of ip("netns", "pids", name).split(/\s+/).filter(Boolean)) endProcess(Number(pid));
  ip("netns", "del", name);
}

function endProcess(pid: number): void {
  try {
    process.kill(pid, "SIGKILL");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error;
  }
}

/** The first three numbers of a network that no interface of this host is in. */
function freePrefix(): string {
  const taken = Object.values(networkInterfaces()).flatMap((all) => (all ?? []).map(({ address }) => address));
  const start = process.pid % 256;
  for (let i = 0; i < 256; i++) {
    const prefix = `10.215.${(start + i) % 256}`;
    if (!taken.some((address) => address.startsWith(`${prefix}.`))) return prefix;
  }
  throw new Error("no network 10.215.x.0/24 is free");
}

function ip(...args: readonly string[]): string {
  return execFileSync("ip", args, { stdio: ["ignore", "pipe", "pipe"], timeout: commandMs, encoding: "utf8" });
}

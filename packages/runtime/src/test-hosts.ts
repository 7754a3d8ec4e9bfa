/**
 * Test hosts: network namespaces with an address each, joined by a bridge, with links of a given rate. Needs Linux, root and iproute2.
 */
import { execFileSync } from "node:child_process";
import { readdirSync } from "node:fs";
import { messageOf } from "@muster/base";

/** One test host. */
export interface TestHost {
  /** Name of its network namespace. */
  readonly name: string;
  readonly address: string;
  /** Command line that runs what follows it on this host. */
  readonly wrapper: readonly string[];
}

/** A network of test hosts. */
export interface TestHosts {
  readonly hosts: readonly TestHost[];
  /** Address of this process's own host in the network, with `gateway`. */
  readonly gateway: string;
  /** Removes the namespaces; processes inside must have ended. */
  close(): void;
}

/** How many hosts, and how fast their links are. */
export interface TestHostsOptions {
  readonly count: number;
  /** Rate of each link in both directions as `tc` reads it, e.g. `2gbit`; without it as fast as the machine. */
  readonly rate?: string;
  /** Joins this process's own host to the network. */
  readonly gateway?: boolean;
}

let networks = 0;

/**
 * Opens a network of test hosts.
 *
 * @returns The network, or why this machine cannot have one.
 */
export function openTestHosts({ count, rate, gateway }: TestHostsOptions): TestHosts | { readonly missing: string } {
  const prefix = `mu${process.pid}n${networks++}`;
  const names = Array.from({ length: count }, (_, i) => `${prefix}h${i}`);
  const made: string[] = [];
  const uplink = `mu${process.pid}up`.slice(-15); // goes with the bridge's namespace, where its other end is
  const close = (): void => {
    for (const name of made.splice(0)) run("ip", "netns", "del", name);
  };
  const add = (name: string): void => {
    run("ip", "netns", "add", name);
    made.push(name);
    run("ip", "-n", name, "link", "set", "lo", "up");
  };
  try {
    removeAbandoned();
    const bridge = `${prefix}sw`;
    add(bridge);
    run("ip", "-n", bridge, "link", "add", "br0", "type", "bridge");
    run("ip", "-n", bridge, "link", "set", "br0", "up");
    if (gateway) {
      run("ip", "link", "add", uplink, "type", "veth", "peer", "name", "uplink", "netns", bridge);
      run("ip", "-n", bridge, "link", "set", "uplink", "master", "br0", "up");
      run("ip", "addr", "add", `${gatewayAddress}/24`, "dev", uplink);
      run("ip", "link", "set", uplink, "up");
    }
    for (const [i, name] of names.entries()) {
      add(name);
      run("ip", "-n", name, "link", "add", "eth0", "type", "veth", "peer", "name", `port${i}`, "netns", bridge);
      run("ip", "-n", bridge, "link", "set", `port${i}`, "master", "br0", "up");
      run("ip", "-n", name, "addr", "add", addressOf(i, "/24"), "dev", "eth0");
      run("ip", "-n", name, "link", "set", "eth0", "up");
      if (rate) for (const link of [`${name} eth0`, `${bridge} port${i}`]) shape(link.split(" "), rate);
    }
  } catch (error) {
    close();
    return {
      missing: `network namespaces need Linux, root and iproute2 (${messageOf(error).trim().replaceAll("\n", ": ")})`,
    };
  }
  const hosts = names.map((name, i) => ({ name, address: addressOf(i), wrapper: ["ip", "netns", "exec", name] }));
  return { hosts, gateway: gatewayAddress, close };
}

const gatewayAddress = "10.214.77.254";

const addressOf = (index: number, prefix = ""): string => `10.214.77.${index + 1}${prefix}`;

/** Removes the networks of processes that were killed before they could do it themselves. */
function removeAbandoned(): void {
  const folder = "/run/netns";
  for (const name of namesIn(folder)) {
    const owner = /^mu(\d+)n\d+(?:sw|h\d+)$/.exec(name)?.[1];
    if (owner && !namesIn("/proc").includes(owner)) run("ip", "netns", "del", name);
  }
}

/** What is in a folder; nothing when there is no such folder. */
function namesIn(folder: string): readonly string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}

function shape([namespace = "", device = ""]: readonly string[], rate: string): void {
  const tc = (...args: readonly string[]): void => run("ip", "netns", "exec", namespace, "tc", ...args);
  const burst = ["burst", "512k", "cburst", "512k", "quantum", "200000"];
  tc("qdisc", "add", "dev", device, "root", "handle", "1:", "htb", "default", "1");
  tc("class", "add", "dev", device, "parent", "1:", "classid", "1:1", "htb", "rate", rate, "ceil", rate, ...burst);
}

function run(command: string, ...args: readonly string[]): void {
  execFileSync(command, args, { stdio: "pipe" });
}

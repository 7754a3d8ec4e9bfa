/**
 * Test hosts: network namespaces with an address each, joined by a bridge, with links of a given rate. Needs Linux, root and iproute2.
 */
import { execFileSync } from "node:child_process";
import { readdirSync } from "node:fs";
import { messageOf } from "@muster/base";
import { type ClaimedNames, claimIn, claimPrefix, claimSubnet } from "./test-subnets.ts";

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
  /** The network itself, e.g. `10.214.77.0/24`: no other process of this machine has it meanwhile. */
  readonly network: string;
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

/**
 * Opens a network of test hosts.
 *
 * @returns The network, or why this machine cannot have one.
 */
export function openTestHosts({ count, rate, gateway }: TestHostsOptions): TestHosts | { readonly missing: string } {
  const made: string[] = [];
  const close = (): void => {
    for (const name of made.splice(0)) run("ip", "netns", "del", name);
  };
  const names: ClaimedNames = {
    list: () => namesIn(folder),
    add: (name) => {
      run("ip", "netns", "add", name);
      made.push(name);
      run("ip", "-n", name, "link", "set", "lo", "up");
    },
    remove: (name) => {
      made.splice(made.indexOf(name), 1);
      run("ip", "netns", "del", name);
    },
  };
  try {
    removeAbandoned();
    const subnet = claimSubnet(process.pid, names);
    const prefix = claimPrefix(process.pid, subnet);
    const [bridge, uplink] = [`${prefix}sw`, `${prefix}u`]; // the uplink goes with the bridge's namespace, where its other end is
    const addressOf = (index: number): string => `10.214.${subnet}.${index + 1}`;
    const gatewayAddress = addressOf(253);
    run("ip", "-n", bridge, "link", "add", "br0", "type", "bridge");
    run("ip", "-n", bridge, "link", "set", "br0", "up");
    if (gateway) {
      run("ip", "link", "add", uplink, "type", "veth", "peer", "name", "uplink", "netns", bridge);
      run("ip", "-n", bridge, "link", "set", "uplink", "master", "br0", "up");
      run("ip", "addr", "add", `${gatewayAddress}/24`, "dev", uplink);
      run("ip", "link", "set", uplink, "up");
    }
    const hosts = Array.from({ length: count }, (_, i) => {
      const name = `${prefix}h${i}`;
      names.add(name);
      run("ip", "-n", name, "link", "add", "eth0", "type", "veth", "peer", "name", `port${i}`, "netns", bridge);
      run("ip", "-n", bridge, "link", "set", `port${i}`, "master", "br0", "up");
      run("ip", "-n", name, "addr", "add", `${addressOf(i)}/24`, "dev", "eth0");
      run("ip", "-n", name, "link", "set", "eth0", "up");
      if (rate) for (const link of [`${name} eth0`, `${bridge} port${i}`]) shape(link.split(" "), rate);
      return { name, address: addressOf(i), wrapper: ["ip", "netns", "exec", name] };
    });
    return { hosts, gateway: gatewayAddress, network: `10.214.${subnet}.0/24`, close };
  } catch (error) {
    close();
    return {
      missing: `network namespaces need Linux, root and iproute2 (${messageOf(error).trim().replaceAll("\n", ": ")})`,
    };
  }
}

/** Removes the networks of processes that were killed before they could do it themselves. */
function removeAbandoned(): void {
  for (const name of namesIn(folder)) {
    const claim = claimIn(name);
    if (!claim || namesIn("/proc").includes(String(claim.pid))) continue;
    try {
      run("ip", "netns", "del", name);
    } catch (error) {
      // Another process may have removed it in the same moment.
      if (namesIn(folder).includes(name)) throw error;
    }
  }
}

/** Where the system keeps the names of network namespaces. */
const folder = "/run/netns";

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

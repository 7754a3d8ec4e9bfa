/** Firewall rules that cut a second host off from this one: what they say, and how they come and go. */
import { execFileSync } from "node:child_process";
import type { FarNamespace } from "./namespace.ts";

/** What does not pass between the two hosts. `up` is what the second host says, `down` what it hears. */
export const partitionWays = [
  "data",
  "data-up",
  "data-down",
  "data-port",
  "data-reject",
  "broker-up",
  "broker-down",
  "broker-reject",
  "all",
] as const;

/** One of {@link partitionWays}. */
export type PartitionWay = (typeof partitionWays)[number];

/** Where the rules apply. */
export interface PartitionPlace {
  readonly nearAddress: string;
  /** Port of the broker, or of the proxy before it, on this host. */
  readonly brokerPort: number;
  /** Port of the data plane of one process of this host; `null` when none is known, and then all are meant. */
  readonly dataPort: number | null;
}

/** Writes the rules as nftables reads them, for the second host's namespace. All in one table, which ends them all. Pure. */
export function partitionRules(table: string, way: PartitionWay, place: PartitionPlace): string {
  const { nearAddress, brokerPort, dataPort } = place;
  const to = `ip daddr ${nearAddress} tcp`;
  const from = `ip saddr ${nearAddress} tcp`;
  const data = { up: `${to} dport != ${brokerPort}`, down: `${from} sport != ${brokerPort}` };
  const rules: Readonly<Record<PartitionWay, readonly [out: string, into: string]>> = {
    all: [`ip daddr ${nearAddress} drop`, `ip saddr ${nearAddress} drop`],
    "broker-up": [`${to} dport ${brokerPort} drop`, ""],
    "broker-down": ["", `${from} sport ${brokerPort} drop`],
    "broker-reject": [`${to} dport ${brokerPort} reject with tcp reset`, ""],
    data: [`${data.up} drop`, `${data.down} drop`],
    "data-up": [`${data.up} drop`, ""],
    "data-down": ["", `${data.down} drop`],
    "data-port": [dataPort === null ? `${data.up} drop` : `${to} dport ${dataPort} drop`, ""],
    "data-reject": [`${data.up} reject with tcp reset`, ""],
  };
  const [out, into] = rules[way];
  const chain = (hook: "output" | "input", rule: string): string =>
    rule === "" ? "" : `  chain ${hook} {\n    type filter hook ${hook} priority 0; policy accept;\n    ${rule}\n  }\n`;
  return `table inet ${table} {\n${chain("output", out)}${chain("input", into)}}\n`;
}

const commandMs = 10_000;
let tables = 0;

/** Cuts the second host off. Connections that live are cut too: their packets go nowhere. @returns Ends it. */
export function partition(namespace: FarNamespace, way: PartitionWay, place: PartitionPlace): () => void {
  const table = `chaos${tables++}`;
  nft(namespace, ["-f", "-"], partitionRules(table, way, place));
  return () => nft(namespace, ["delete", "table", "inet", table]);
}

function nft({ wrapper }: FarNamespace, args: readonly string[], input = ""): void {
  const [command = "ip", ...rest] = wrapper;
  execFileSync(command, [...rest, "nft", ...args], { input, stdio: ["pipe", "pipe", "pipe"], timeout: commandMs });
}

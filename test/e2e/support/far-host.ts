/**
 * A second host for tests: a network namespace with a name, an address and a folder for sockets of its own, so that nothing but TCP leads
 * from one to the other.
 */
import { execFileSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { connect, createServer, type Server } from "node:net";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { messageOf } from "@muster/base";
import { openTestHosts, type TestHost } from "@muster/runtime";
import { type ActorProcess, type JobRun, spawnActor } from "@muster/testkit";
import { brokerOf } from "./broker.ts";

const muster = fileURLToPath(new URL("../../../packages/cli/bin/muster.mjs", import.meta.url));

/** The second host, and the way to the broker of a job. */
export interface FarHost {
  /** Settings of a job that lives on both hosts. */
  readonly settings: readonly string[];
  /** Lets the replicas of the second host reach a job's broker. @returns Starts a replica of that job there. */
  open(run: JobRun): Promise<(...replica: readonly string[]) => Promise<ActorProcess>>;
  /** Why it can not be silenced, or `null`. */
  readonly unsilenceable: string | null;
  /** From now on, what the second host sends past the broker is lost after so many bytes: it falls silent in the middle of what it says. */
  silenceAfter(bytes: number): void;
  /** True once something was lost. */
  isSilent(): boolean;
  /** From now on nothing leaves or reaches the second host: no word, no end of a connection, no refusal. */
  cutOff(): void;
  /** Everything goes through again. */
  hearAgain(): void;
  /** The end of the second host: all its processes at once. */
  die(): void;
  close(): void;
}

/** Opens it. @returns Why there can be none here, otherwise. */
export function openFarHost(): FarHost | { readonly missing: string } {
  const network = openTestHosts({ count: 1, gateway: true });
  if ("missing" in network) return { missing: `${network.missing}` };
  const [host] = network.hosts as readonly [TestHost];
  const relays: Server[] = [];
  const ports: number[] = [];
  const nft = (...args: string[]): string => {
    const [command = "ip", ...inside] = host.wrapper;
    return execFileSync(command, [...inside, "nft", ...args], { encoding: "utf8", stdio: "pipe" });
  };
  const chain = (name: "input" | "output"): string =>
    `add chain inet silence ${name} { type filter hook ${name} priority 0; policy accept; }`;
  return {
    settings: ["--set", `data.tcp_host=${network.network}`],
    unsilenceable: failureOf(() => nft("list", "tables")),
    async open(run) {
      const local = brokerOf(run);
      const port = await relayTo(local.url, network.gateway, relays);
      ports.push(port);
      const connection = join(run.directory, "far.json");
      const url = `nats://${network.gateway}:${port}`;
      const { policy, rollout } = JSON.parse(readFileSync(join(run.directory, "job.json"), "utf8")).engine;
      const engines = { policy: policy.adapter, rollout: rollout.adapter };
      writeFileSync(connection, JSON.stringify({ ...local, job: run.job, url, engines }), { mode: 0o600 });
      return (...replica) => startFar(host, run, [...replica, "--connection", connection]);
    },
    silenceAfter(bytes) {
      const passing = `ip daddr ${network.gateway} tcp dport != { ${ports.join(", ")} }`;
      nft(`add table inet silence; ${chain("output")}`);
      nft(`add rule inet silence output ${passing} quota over ${bytes} bytes counter drop`);
    },
    isSilent: () => !nft("list", "table", "inet", "silence").includes("counter packets 0 "),
    cutOff() {
      nft(`add table inet silence; ${chain("input")}; ${chain("output")}`);
      nft('insert rule inet silence input iifname != "lo" drop; insert rule inet silence output oifname != "lo" drop');
    },
    hearAgain: () => void nft("delete", "table", "inet", "silence"),
    die() {
      const pids = execFileSync("ip", ["netns", "pids", host.name], { encoding: "utf8", stdio: "pipe" });
      for (const pid of pids.split("\n").filter(Boolean)) process.kill(Number(pid), "SIGKILL");
    },
    close() {
      for (const relay of relays) relay.close();
      network.close();
    },
  };
}

/** Why something can not be done here, as the line of a skipped test; `null` when it can. */
function failureOf(probe: () => void): string | null {
  try {
    probe();
    return null;
  } catch (error) {
    return `firewall rules need nftables (${messageOf(error)})`;
  }
}

/** The broker of a job listens on loopback; this lets it be reached at the address that other hosts see. @returns The port. */
async function relayTo(url: string, address: string, relays: Server[]): Promise<number> {
  const port = Number(new URL(url).port);
  const server = createServer((far) => {
    const near = connect(port, "127.0.0.1");
    for (const [from, to] of [
      [far, near],
      [near, far],
    ] as const) {
      from.pipe(to);
      from.on("error", () => to.destroy());
      from.on("close", () => to.destroy());
    }
  });
  relays.push(server);
  await new Promise<void>((resolve) => server.listen(0, address, resolve));
  const bound = server.address();
  return typeof bound === "object" ? (bound?.port ?? 0) : 0;
}

function startFar(host: TestHost, run: JobRun, replica: readonly string[]): Promise<ActorProcess> {
  const runs = join(run.directory, "..");
  const command = [process.execPath, muster, ...replica, "--runs", runs, "--job", run.job];
  // All replicas of the second host share one folder for sockets, which is not that of the first.
  const setup = 'hostname far && mkdir -p "$0" "$1" && mount --bind "$1" "$0" && shift && exec "$@"';
  const { socketDirectory } = JSON.parse(readFileSync(join(run.directory, "job.json"), "utf8")).data;
  const farSockets = join(run.directory, "far-sockets");
  const inside = ["unshare", "--uts", "--mount", "sh", "-c", setup, socketDirectory, farSockets, ...command];
  const args = [...host.wrapper.slice(1), ...inside];
  return spawnActor({ command: host.wrapper[0] ?? "ip", args });
}

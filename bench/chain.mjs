/**
 * A version on its way over hosts with links of 2 Gbit/s, each a network namespace of this machine: from one trainer down a chain of
 * rollout replicas. Against the line rate; and with a replica killed or frozen midway, against the same chain undisturbed. All hosts share
 * the cores of this machine: where these are too few or busy, MUSTER_BENCH_MBIT sets slower links, and the version shrinks with them.
 */
import { spawn } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { openTestHosts } from "@muster/testkit";
import { medianOf, spreadOf } from "./lib/stats.mjs";

const rateMbit = Number(process.env.MUSTER_BENCH_MBIT ?? 2000);
const sizeMib = Math.round((256 * rateMbit) / 2000);
const bytes = sizeMib * 1024 * 1024;

export const about = `a version over a chain of hosts at ${rateMbit} Mbit/s`;

const hostCount = 8;
const rounds = 3;
const rateBytesPerMs = (rateMbit * 1e6) / 8 / 1000;
/** Share of a full Ethernet frame that is payload of TCP. */
const payloadShare = 1448 / 1514;
const floorMs = bytes / (rateBytesPerMs * payloadShare);
const victim = 3;

const script = fileURLToPath(new URL("chain/member.mjs", import.meta.url));

export class Member {
  constructor(host) {
    const [command, ...rest] = [...host.wrapper, process.execPath, script];
    this.host = host;
    this.process = spawn(command, rest, { stdio: ["ignore", "inherit", "inherit", "ipc"] });
  }

  call(call, options) {
    return new Promise((resolve, reject) => {
      const ended = () => reject(new Error(`a member ended during ${call}`));
      this.process.once("exit", ended);
      this.process.once("message", (answer) => {
        this.process.off("exit", ended);
        if ("failed" in answer) reject(new Error(answer.failed));
        else resolve(answer.done);
      });
      this.process.send({ call, options });
    });
  }
}

export async function* run() {
  const network = openTestHosts({ count: hostCount, rate: `${rateMbit}mbit` });
  if ("missing" in network) {
    console.error(`  skipped: ${network.missing}`);
    return;
  }
  const socketDir = await mkdtemp(join(tmpdir(), "muster-bench-"));
  try {
    yield* await rowsOn(network.hosts, socketDir);
  } finally {
    network.close();
    await rm(socketDir, { recursive: true, force: true });
  }
}

/** @param {readonly import("@muster/testkit").TestHost[]} hosts @param {string} socketDir */
async function rowsOn(hosts, socketDir) {
  const times = { quiet: [], killed: [], frozen: [] };
  for (let round = 0; round < rounds; round++)
    for (const event of ["quiet", "killed", "frozen"]) times[event].push(await runChain(hosts, socketDir, event));
  const against = (name, reference, referenceTimes) => {
    const ratios = times[name].map((ms, i) => ms / referenceTimes[i]);
    const ours = medianOf(times[name]);
    return {
      name: rowNames[name],
      unit: "ms",
      against: reference,
      ours,
      reference: medianOf(referenceTimes),
      ratio: medianOf(ratios),
      spread: spreadOf(ratios),
    };
  };
  const floor = times.quiet.map(() => floorMs);
  return [
    against("quiet", "line rate", floor),
    against("killed", "undisturbed", times.quiet),
    against("frozen", "undisturbed", times.quiet),
  ];
}

const rowNames = {
  quiet: `${sizeMib} MiB to ${hostCount - 1} hosts`,
  killed: `${sizeMib} MiB, one killed midway`,
  frozen: `${sizeMib} MiB, one frozen midway`,
};

/** @returns Milliseconds until all receivers that can have the version have it. */
async function runChain(hosts, socketDir, event) {
  const members = hosts.map((host) => new Member(host));
  try {
    const addresses = await Promise.all(
      members.map((member, i) =>
        member.call("open", { member: `m${i}`, socketDir, tcpHost: member.host.address, slotBytes: bytes + 64 }),
      ),
    );
    const [source, ...receivers] = members;
    // A first version makes slots warm, as in a job that has run for a while.
    for (const version of [1, 2]) {
      const id = { lineage: 0, version };
      const sections = await source.call("publish", { id, bytes });
      const startedMs = performance.now();
      const pulls = receivers.map((receiver, i) => {
        const holders = addresses.slice(0, i + 1).reverse();
        return receiver.call("pull", { id, sections, holders });
      });
      if (version === 2 && event !== "quiet") {
        const { process: child } = receivers[victim];
        setTimeout(() => child.kill(event === "killed" ? "SIGKILL" : "SIGSTOP"), floorMs * 0.4);
        pulls[victim].catch(() => {}); // it is the one that goes
        pulls.splice(victim, 1);
      }
      await Promise.all(pulls);
      if (version === 2) return performance.now() - startedMs;
    }
  } finally {
    for (const { process: child } of members) child.kill("SIGKILL");
    await Promise.all(
      members.map(
        ({ process: child }) => child.exitCode ?? child.signalCode ?? new Promise((r) => child.once("exit", r)),
      ),
    );
  }
}

/**
 * A version on its way to another host as what changed since the one before, against the whole version over the same link: 2 Gbit/s between
 * two network namespaces of this machine. The weights have 16 bits an element, as those of most models that are served.
 */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { medianOf } from "@muster/base";
import { openTestHosts } from "@muster/runtime";
import { Member } from "./lib/member.mjs";
import { spreadOf } from "./lib/stats.mjs";

export const about = "a version to another host as a delta, at 2 Gbit/s";

const bytes = 64 * 1024 * 1024;
const rounds = 5;
const shares = [0.001, 0.01, 0.03, 0.1];

const script = new URL("delta/member.mjs", import.meta.url);

export async function* run() {
  const network = openTestHosts({ count: 2, rate: "2000mbit" });
  if ("missing" in network) {
    console.error(`  skipped: ${network.missing}`);
    return;
  }
  const socketDir = await mkdtemp(join(tmpdir(), "muster-bench-"));
  const [here, there] = network.hosts;
  const hosts = [here, there, there];
  const members = hosts.map(({ wrapper }) => new Member(script, wrapper));
  try {
    const modes = ["never", "never", "always"];
    const options = (i) => ({
      ...{ member: `m${i}`, socketDir, tcpHost: hosts[i].address, slotBytes: bytes + 64 },
      delta: { mode: modes[i], anchorEvery: 0 },
    });
    const [address] = await Promise.all(members.map((member, i) => member.call("open", options(i))));
    yield* rowsOf(members, address);
  } finally {
    for (const member of members) member.end();
    network.close();
    await rm(socketDir, { recursive: true, force: true });
  }
}

/** @param {Member[]} members @param {string} address of the first one */
async function* rowsOf([source, whole, delta], address) {
  let version = 0;
  const step = async (share) => {
    const id = { lineage: 0, version: ++version };
    const sections = await source.call("change", { id, bytes, share });
    const pull = { id, sections, holders: [address] };
    return { whole: await whole.call("pull", pull), delta: await delta.call("pull", pull) };
  };
  for (let i = 0; i < 3; i++) await step(0.01); // all slots are warm, and both have a base
  for (const share of shares) {
    const taken = [];
    for (let round = 0; round < rounds; round++) taken.push(await step(share));
    const row = (name, unit, of, scale) => {
      const ratios = taken.map((each) => of(each.delta) / of(each.whole));
      const median = (way) => medianOf(taken.map((each) => of(each[way]))) / scale;
      const figures = { ours: median("delta"), reference: median("whole") };
      return {
        name: `${share * 100} % changed: ${name}`,
        unit,
        against: "whole",
        ...figures,
        ratio: medianOf(ratios),
        spread: spreadOf(ratios),
      };
    };
    yield row("time", "ms", ({ durationMs }) => durationMs, 1);
    yield row("bytes on the wire", "MiB", ({ wireBytes }) => wireBytes, 2 ** 20);
  }
}

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

/** @typedef {import("@muster/runtime").TestHost} TestHost */
/** @typedef {{ durationMs: number, wireBytes: number }} Pulled */

export async function* run() {
  const network = openTestHosts({ count: 2, rate: "2000mbit" });
  if ("missing" in network) {
    console.error(`  skipped: ${network.missing}`);
    return;
  }
  const socketDir = await mkdtemp(join(tmpdir(), "muster-bench-"));
  const [here, there] = /** @type {[TestHost, TestHost]} */ (network.hosts);
  /** @param {TestHost} host */
  const memberOn = ({ wrapper }) => new Member(script, wrapper);
  /** @type {[Member, Member, Member]} */
  const members = [memberOn(here), memberOn(there), memberOn(there)];
  try {
    /** @param {Member} member @param {TestHost} host @param {string} mode @returns {Promise<string>} Its address. */
    const open = (member, { address }, mode) => {
      const own = { member: `m${members.indexOf(member)}`, socketDir, tcpHost: address, slotBytes: bytes + 64 };
      return member.call("open", { ...own, delta: { mode, anchorEvery: 0 } });
    };
    const [source, whole, delta] = members;
    const address = await open(source, here, "never");
    await open(whole, there, "never");
    await open(delta, there, "always");
    yield* rowsOf(members, address);
  } finally {
    for (const member of members) member.end();
    network.close();
    await rm(socketDir, { recursive: true, force: true });
  }
}

/** @param {[Member, Member, Member]} members @param {string} address of the first one */
async function* rowsOf([source, whole, delta], address) {
  let version = 0;
  /** @param {number} share @returns {Promise<{ whole: Pulled, delta: Pulled }>} */
  const step = async (share) => {
    const id = { lineage: 0, version: ++version };
    const sections = await source.call("change", { id, bytes, share });
    const pull = { id, sections, holders: [address] };
    return { whole: await whole.call("pull", pull), delta: await delta.call("pull", pull) };
  };
  for (let i = 0; i < 3; i++) await step(0.01); // all slots are warm, and both have a base
  for (const share of shares) {
    /** @type {{ whole: Pulled, delta: Pulled }[]} */
    const taken = [];
    for (let round = 0; round < rounds; round++) taken.push(await step(share));
    /** @param {string} name @param {string} unit @param {(pulled: Pulled) => number} of @param {number} scale */
    const row = (name, unit, of, scale) => {
      const ratios = taken.map((each) => of(each.delta) / of(each.whole));
      /** @param {"whole" | "delta"} way */
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

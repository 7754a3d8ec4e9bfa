/**
 * What an event costs the controller: CPU of one report while a step is sampled, at four sizes of a job, and the first hand-out of leases to samplers that
 * all wait. Nothing is journaled or sent: this is what is decided, and it should not depend on how large the job is.
 */
import { medianOf } from "@muster/base";
import { controllerLogic, controllerSnapshotOf } from "@muster/machines/controller";
import { jobState } from "./controller/job.mjs";
import { spreadOf } from "./lib/stats.mjs";

export const about = "CPU of one report, and of the first hand-out of leases, by the size of the job";

/** @typedef {{ members: number, groups: number, aimUs: number | null }} Size */
/** @type {readonly Size[]} */
const sizes = [
  { members: 10, groups: 128, aimUs: null },
  { members: 1_000, groups: 1_024, aimUs: 50 },
  { members: 3_000, groups: 4_096, aimUs: null },
  { members: 10_000, groups: 100_000, aimUs: 100 },
];
/** The last size costs at most so many times what the second does. */
const growthMax = 2;
const handOuts = [
  { members: 3_000, groups: 4_096, aimMs: null },
  { members: 10_000, groups: 100_000, aimMs: 200 },
];
const reports = 2_048;
/** Before so many the tables of the job are still being built. */
const warmUp = 256;
const rounds = 7;
const handOutRounds = 3;

export async function* run() {
  const costs = [];
  reportCost(1_000, 1_024); // code that is not compiled yet
  for (const { members, groups, aimUs } of sizes) {
    const { value, spread } = reportCost(members, groups);
    costs.push(value);
    yield rowOf({ name: `a report at ${members} members and ${groups} groups`, value, unit: "µs", aim: aimUs, spread });
  }
  const growth = (costs.at(-1) ?? Number.NaN) / (costs[1] ?? Number.NaN);
  const last = sizes.at(-1)?.members;
  yield rowOf({
    ...{
      name: `growth from ${sizes[1]?.members} to ${last} members`,
      value: growth,
      unit: "×",
      aim: growthMax,
      spread: 0,
    },
  });
  for (const { members, groups, aimMs } of handOuts) {
    const { value, spread } = handOutCost(members, groups);
    yield rowOf({ name: `first hand-out to ${members} samplers`, value, unit: "ms", aim: aimMs, spread });
  }
}

/** @param {{ name: string, value: number, unit: string, aim: number | null, spread: number }} row */
function rowOf({ name, value, unit, aim, spread }) {
  const reference = aim ?? value;
  return {
    name,
    unit,
    against: aim === null ? "no aim" : "aim",
    ours: value,
    reference,
    ratio: value / reference,
    spread,
    aim,
  };
}

/** @param {number} members @param {number} groups Microseconds for a report. */
function reportCost(members, groups) {
  const count = Math.min(reports, Math.floor(groups * 0.5));
  return summaryOf(
    Array.from({ length: Math.ceil((rounds * reports) / count / 4) }, () => {
      const job = leased(members, groups);
      hear(job, Math.floor(groups * 0.2), warmUp);
      const before = cpuMs();
      hear(job, count, count);
      return ((cpuMs() - before) / count) * 1_000;
    }),
  );
}

/** @param {ReturnType<typeof leased>} job @param {number} count @param {number} most */
function hear(job, count, most) {
  for (let i = 0; i < Math.min(count, most); i++) {
    const piece = job.pieces[job.next++];
    if (!piece) throw new Error("there is no work left");
    const step = controllerLogic.step(job.snapshot, reportOf(job.snapshot, piece));
    job.snapshot = step.snapshot;
    job.pieces.push(...piecesOf(step.effects));
  }
}

/** Milliseconds until every sampler has its leases. @param {number} members @param {number} groups */
function handOutCost(members, groups) {
  return summaryOf(
    Array.from({ length: handOutRounds }, () => {
      const job = waiting(members, groups);
      const before = cpuMs();
      job.handOut();
      return cpuMs() - before;
    }),
  );
}

/** @param {number} members @param {number} groups */
function waiting(members, groups) {
  const state = jobState(members, groups);
  const start = controllerSnapshotOf({ state, phase: "sampling" });
  return { handOut: () => controllerLogic.step(start, { type: "controller.tick", atMs: state.nowMs + 1 }) };
}

/** @param {number} members @param {number} groups */
function leased(members, groups) {
  const { snapshot, effects } = waiting(members, groups).handOut();
  return { snapshot, pieces: piecesOf(effects), next: 0 };
}

/** @typedef {ReturnType<typeof controllerLogic.step>} Step */
/** @typedef {ReturnType<typeof piecesOf>[number]} Piece One group on a lease. */

/** @param {Step["effects"]} effects */
function piecesOf(effects) {
  return effects.flatMap((effect) => {
    if (effect.type !== "command" || effect.kind !== "groups.lease") return [];
    const { to, incarnation, body } = effect;
    const { leaseId, version, items } = body;
    return items.flatMap((item) => (item.purpose === "train" ? { to, incarnation, leaseId, version, item } : []));
  });
}

/**
 * A group is finished.
 *
 * @param {Step["snapshot"]} snapshot @param {Piece} piece
 * @returns {import("@muster/machines/controller").ControllerEvent}
 */
function reportOf({ context: { state } }, { to, incarnation, leaseId, version, item }) {
  const { step, index, attempt } = item;
  const { groupSize } = state.plan;
  const counts = { completed: groupSize, aborted: 0, rewardSum: 1, tokens: groupSize };
  const receipt = { step, index, attempt, version, streamSeq: index + 1, ...counts };
  return {
    ...{ type: "groups.completed", atMs: state.nowMs + 1, from: to, role: "rollout", incarnation },
    body: { leaseId, receipts: [receipt], causes: [], durationMs: 1_000 },
  };
}

function cpuMs() {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1_000;
}

/** @param {readonly number[]} costs */
function summaryOf(costs) {
  return { value: medianOf(costs), spread: spreadOf(costs) };
}

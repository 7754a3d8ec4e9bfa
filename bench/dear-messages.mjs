/**
 * Hostile messages up to the limits, taken in as the controller takes reports and a trainer takes groups, and the dearest of them by CPU. Half are
 * noise in a right envelope; half follow the schema of their kind to its largest tables, with wrong values where it hurts. What is dear at the first
 * try counts with its least time of five. `MUSTER_BENCH_SEED` draws others.
 */
import { noMetrics, silentLogger } from "@muster/base";
import { decodeMessage, messageTable, payloadBytesMax, peekMessage } from "@muster/protocol";
import { messageKinds } from "@muster/protocol/internal";
import { createIngress, systemClock } from "@muster/runtime";
import { hostile } from "./lib/hostile.mjs";

/** The controller has one thread for everybody's reports. A trainer reads only groups that were leased, and legal ones of this size take a quarter of it. */
const aims = { controller: 10, trainer: 150 };
/** Below this nothing is looked at twice. */
const dearMs = 2;

export const about = "the dearest of 2,000 hostile messages by CPU, against the aim";

const count = 2_000;
const seed = Number(process.env.MUSTER_BENCH_SEED ?? 1);
const { messageOf, flavours } = hostile(seed);
let said = "";
const ingress = createIngress({
  ...{ job: "dates", self: "controller", clock: systemClock(), logger: silentLogger, metrics: noMetrics },
  accept: ({ kind }) => {
    said = `${kind} is taken`;
    return true;
  },
  onRefused: ({ subject, data, detail }) => {
    peekMessage(data, { subject, seq: 7 });
    said = detail;
  },
});

/** Who says a kind, and hence where. @param {import("@muster/protocol").Kind} kind */
function placeOf(kind) {
  const [role] = messageTable[kind].from;
  const { direction } = messageTable[kind];
  if (direction === "groups") return { role, subject: null };
  return { role, subject: `muster.dates.${direction === "heartbeat" ? `hb.${role}.a` : `reports.${role}.a.${kind}`}` };
}

/** @param {Uint8Array} data @param {string | null} subject */
function take(data, subject) {
  if (subject) {
    said = "read, and known";
    ingress.handle({ subject, data, seq: 7, redeliveries: 0, ack: () => {}, nak: () => {}, term: () => {} });
    return said;
  }
  try {
    return decodeMessage(data).kind;
  } catch (error) {
    return String(error);
  }
}

/** Milliseconds of CPU: others on the machine do not count. @param {() => string} work */
function cpuOf(work) {
  const before = process.cpuUsage();
  const outcome = work();
  const { user, system } = process.cpuUsage(before);
  return { ms: (user + system) / 1_000, outcome };
}

const heard = messageKinds.filter((kind) => ["report", "heartbeat", "groups"].includes(messageTable[kind].direction));

export async function* run() {
  const results = allOf();
  for (const who of /** @type {const} */ (["controller", "trainer"])) {
    const theirs = results.filter(({ isGroups }) => isGroups === (who === "trainer"));
    const [dearest, next = dearest] = theirs.sort((a, b) => b.ms - a.ms);
    if (!dearest || !next) throw new Error(`seed ${seed}: no message to a ${who}`);
    const aim = aims[who];
    yield {
      name: `the dearest of ${theirs.length} to a ${who}`,
      against: "the aim",
      unit: "ms of CPU",
      ours: dearest.ms,
      reference: aim,
      aim,
      ratio: dearest.ms / aim,
      spread: (dearest.ms - next.ms) / dearest.ms,
      note: `seed ${seed}: ${dearest.kind}, ${dearest.flavour}, ${dearest.bytes} bytes: ${dearest.outcome.slice(0, 90)}`,
    };
  }
}

/** Each message, and what it cost. */
function allOf() {
  const results = [];
  for (let i = 0; i < count; i++) {
    const kind = /** @type {import("@muster/protocol").Kind} */ (heard[i % heard.length]);
    const { role, subject } = placeOf(kind);
    const flavour = /** @type {string} */ (flavours[Math.floor(i / heard.length) % flavours.length]);
    const data = messageOf({ kind, role, flavour });
    if (data.length > payloadBytesMax) continue;
    let least = cpuOf(() => take(data, subject));
    for (let again = 0; least.ms > dearMs && again < 4; again++) {
      const next = cpuOf(() => take(data, subject));
      if (next.ms < least.ms) least = next;
    }
    results.push({ ...least, isGroups: subject === null, kind, flavour, bytes: data.length });
  }
  return results;
}

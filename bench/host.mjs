/** What it costs to step an event: through the actor host, by the logic alone, and by XState's own pure `transition`. */
import { noMetrics, silentLogger } from "@muster/base";
import { rolloutLogic } from "@muster/machines";
import { rolloutMachine } from "@muster/machines/internal";
import { createActorHost, systemClock } from "@muster/runtime";
import { createMetrics } from "@muster/runtime/metrics";
import { initialTransition, transition } from "xstate";
import { compare } from "./lib/compare.mjs";

export const about = "step of a machine: actor host, logic, XState";

const batch = 1024;
const input = { timing: { pullMs: 60_000, leaseMs: 60_000 }, chunkGroups: 16, leasesMax: 3 };

/** @typedef {Parameters<typeof rolloutLogic.step>[1]} RolloutEvent */

/**
 * A rollout replica at work: a lease of 32 groups comes, its two chunks are generated, stored and told. Seven events, over and over.
 *
 * @returns {Generator<RolloutEvent, never>}
 */
function* leases() {
  for (let lease = 0; ; lease++) {
    const leaseId = `1.${lease}`;
    const purpose = /** @type {const} */ ("train");
    const items = Array.from({ length: 32 }, (_, index) => ({ purpose, step: 1, index, attempt: 0 }));
    yield { type: "groups.lease", body: { leaseId, lineage: 0, version: 0, items } };
    for (const chunk of [0, 1]) {
      const chunkId = `${leaseId}/${chunk}`;
      yield { type: "groups.generated", chunkId, messages: 1 };
      yield { type: "groups.stored", chunkId, leaseId, receipts: [], causes: [], durationMs: 1 };
      yield { type: "report.told", id: chunkId };
    }
  }
}

/** @returns {() => RolloutEvent} */
function eventsOf() {
  const source = leases();
  return () => source.next().value;
}

/** @param {import("@muster/base").Metrics} metrics */
function throughHost(metrics) {
  const handlers = {
    report() {},
    drop() {},
    "weights.pull"() {},
    "weights.abort"() {},
    "groups.generate"() {},
    "groups.abort"() {},
    "groups.handBack"() {},
  };
  const host = createActorHost({
    logic: rolloutLogic,
    initial: rolloutLogic.init(input),
    handlers,
    clock: systemClock(),
    logger: silentLogger,
    metrics,
    mailboxMax: batch,
  });
  const next = eventsOf();
  return async (/** @type {number} */ pieces) => {
    for (let left = pieces; left > 0; left -= batch) {
      for (let i = 0; i < Math.min(left, batch); i++) host.post(next());
      await host.idle();
    }
  };
}

function byLogic() {
  let { snapshot } = rolloutLogic.init(input);
  const next = eventsOf();
  return (/** @type {number} */ pieces) => {
    for (let i = 0; i < pieces; i++) ({ snapshot } = rolloutLogic.step(snapshot, next()));
  };
}

function byXstate() {
  let [snapshot] = initialTransition(rolloutMachine, input);
  const next = eventsOf();
  return (/** @type {number} */ pieces) => {
    for (let i = 0; i < pieces; i++) [snapshot] = transition(rolloutMachine, snapshot, next());
  };
}

export async function* run() {
  yield await compare({
    name: "event through the host",
    against: "logic.step",
    ours: throughHost(noMetrics),
    reference: byLogic(),
  });
  yield await compare({
    name: "event through the host, metrics on",
    against: "logic.step",
    ours: throughHost(createMetrics()),
    reference: byLogic(),
  });
  yield await compare({ name: "logic.step", against: "XState transition()", ours: byLogic(), reference: byXstate() });
}

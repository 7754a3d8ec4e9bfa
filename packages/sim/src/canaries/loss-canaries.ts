/** Bugs about what a broker loses, forgets, or does not take. */
import type { ControllerEvent, Member } from "@muster/machines";
import type { Scenario } from "../cluster/scenario.ts";
import type { Fault } from "../faults/fault.ts";
import { cramped } from "../seed/draw-streams.ts";
import { type Canary, repeated } from "./canary.ts";
import { mind } from "./mind.ts";

type Stream = Extract<Fault, { kind: "suffix-loss" }>["stream"];

/** The broker loses the end of a stream now and then. */
const losing =
  (stream: Stream, everyMs: number) =>
  (scenario: Scenario): readonly Fault[] =>
    repeated(scenario, everyMs, (atMs) => ({ kind: "suffix-loss", atMs, forMs: 1_000, stream, lostMs: 3_000 }));

/** A time that does not come. */
const never = 2 ** 50;

/** An order that is never overdue. */
function waitedFor(member: Member): Member {
  const { order } = member;
  return order && order.dueAtMs !== never ? { ...member, order: { ...order, dueAtMs: never } } : member;
}

/** The table with each row changed; the same one where no row is. */
function withEach<Row>(table: Readonly<Record<string, Row>>, change: (row: Row) => Row): Readonly<Record<string, Row>> {
  const rows = Object.entries(table).map(([id, row]) => [id, row, change(row)] as const);
  return rows.every(([, row, next]) => row === next)
    ? table
    : Object.fromEntries(rows.map(([id, , next]) => [id, next]));
}

/** Work in which nothing is wrong, and no checkpoint before the last one unless somebody sees that it is needed. */
function withoutCheckpoints(scenario: Scenario): Scenario {
  const { config, work } = scenario;
  const checkpoint = { ...config.checkpoint, everySteps: 0 };
  const sound = { ...work, poisonRate: 0, overflowRate: 0, killerRate: 0, hangerRate: 0 };
  return cramped({ ...scenario, config: { ...config, checkpoint }, work: sound }, 2);
}

/** Canaries about what is lost. */
export const lossCanaries: readonly Canary[] = [
  {
    name: "lost-records-written-over",
    says: "a controller goes on behind the end that its journal has lost",
    profile: "broker",
    seedsMax: 20,
    stage: losing("journal", 20_000),
    make: () => ({ wire: { ignoresFence: true } }),
  },
  mind("lost-groups-computed-again", "a batch of which groups are lost is tried again as it is", {
    profile: "broker",
    seedsMax: 20,
    stage: losing("groups", 5_000),
    line: {
      hears: (event) => {
        if (event.type !== "step.voted") return event;
        const { unreadable: _, ...body } = event.body;
        return { ...event, body };
      },
    },
  }),
  mind("lost-orders-waited-for", "an order that did not come is never given again", {
    profile: "broker",
    seedsMax: 20,
    stage: losing("commands", 5_000),
    line: {
      keeps(after) {
        const members = withEach(after.members, waitedFor);
        return members === after.members ? after : { ...after, members };
      },
    },
  }),
  mind("lost-results-waited-for", "a lease of which the results are lost never ends", {
    profile: "broker",
    seedsMax: 20,
    stage: losing("reports", 5_000),
    line: {
      keeps(after) {
        const leases = withEach(after.leases, (lease) =>
          lease.dueAtMs === never ? lease : { ...lease, dueAtMs: never },
        );
        return leases === after.leases ? after : { ...after, leases };
      },
    },
  }),
  {
    name: "expiry-not-noticed",
    says: "readers do not notice that the broker has forgotten their consumers",
    profile: "broker",
    seedsMax: 20,
    stage: (scenario) => [{ kind: "consumer-expiry", atMs: Math.min(15_000, scenario.safetyMs / 2) }],
    make: () => ({ wire: { missesExpiry: true } }),
  },
  {
    name: "records-too-large",
    says: "records of the journal are larger than a broker takes",
    profile: "quiet",
    seedsMax: 20,
    make: () => ({ recordBytes: 768 * 1024 }),
  },
  mind("full-stream-not-heard", "the controller does not hear that the groups stream fills, or is full", {
    profile: "storage",
    seedsMax: 20,
    shape: withoutCheckpoints,
    stage: () => [],
    line: {
      hears: (event) =>
        event.type === "groups.held" || event.type === "controller.filled"
          ? ({ type: "controller.tick", atMs: event.atMs } satisfies ControllerEvent)
          : event,
    },
  }),
];

/** Bugs about what a broker loses, forgets, or does not take. */
import type { ControllerEvent } from "@muster/machines/controller";
import type { Scenario } from "../cluster/scenario.ts";
import type { Fault } from "../faults/fault.ts";
import { cramped } from "../seed/draw-streams.ts";
import { type Canary, repeated } from "./canary.ts";
import { logicBug } from "./logic-bug.ts";

type Stream = Extract<Fault, { kind: "suffix-loss" }>["stream"];

/** The broker loses the end of a stream now and then. */
const losing =
  (stream: Stream, everyMs: number) =>
  (scenario: Scenario): readonly Fault[] =>
    repeated(scenario, everyMs, (atMs) => ({ kind: "suffix-loss", atMs, forMs: 1_000, stream, lostMs: 3_000 }));

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
  logicBug("lost-groups-computed-again", "a batch of which groups are lost is tried again as it is", {
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
  logicBug("full-stream-not-heard", "the controller does not hear that the groups stream fills, or is full", {
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

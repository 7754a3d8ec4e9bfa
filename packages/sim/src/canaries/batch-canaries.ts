/** Bugs about what ends its holders: batches that end trainers, and what a storm of kills looks like. */
import type { ControllerState } from "@muster/machines/controller";
import type { Scenario } from "../cluster/scenario.ts";
import type { Fault } from "../faults/fault.ts";
import { type Canary, repeated } from "./canary.ts";
import { mind } from "./mind.ts";

/** Some samples end whoever trains on them. */
function withTrainerKillers(scenario: Scenario): Scenario {
  return { ...scenario, work: { ...scenario.work, trainerKillerRate: 0.01 } };
}

/** Nothing is wrong with the work, and a group has three attempts. */
function withSoundWork(scenario: Scenario): Scenario {
  const { config, work } = scenario;
  const failure = { ...config.failure, engineCrash: { ...config.failure.engineCrash, attempts: 3 } };
  const sound = { ...work, poisonRate: 0, overflowRate: 0, killerRate: 0, hangerRate: 0, trainerKillerRate: 0 };
  return { ...scenario, config: { ...config, failure }, work: sound };
}

/** Trainers and samplers are killed in turns, faster than a sampler computes. */
function storm(scenario: Scenario): readonly Fault[] {
  const { policy, rollout } = scenario.config.replicas;
  const everyMs = 250;
  return repeated(scenario, everyMs, (atMs) => {
    const turn = Math.round(atMs / everyMs);
    const each = Math.floor(turn / 2);
    const node = turn % 2 === 0 ? `policy-${each % policy}` : `rollout-${each % rollout}`;
    return { kind: "kill", atMs, node, isSeen: true };
  });
}

/** What was given up between two states although its result was there, and the first group after it that is not. */
function convictedIn(after: ControllerState, before: ControllerState) {
  const step = after.step.step;
  const [now, was] = [after.groups[step], before.groups[step]];
  const index = now?.quarantined.find((each) => was?.receipts[each] && !was.quarantined.includes(each));
  const other = Object.values(now?.receipts ?? {})[0]?.index;
  return now && was && index !== undefined && other !== undefined ? { step, now, was, index, other } : null;
}

/** Canaries in the search for the group that ends trainers. */
export const batchCanaries: readonly Canary[] = [
  mind("batch-tried-for-ever", "lost attempts of a step are forgotten, and its batch is tried again for ever", {
    profile: "quiet",
    seedsMax: 10,
    shape: withTrainerKillers,
    line: { keeps: (after) => (Object.keys(after.losses ?? {}).length > 0 ? { ...after, losses: {} } : after) },
  }),
  mind("neighbour-given-up", "another group of the step is given up for the one that ends trainers", {
    profile: "quiet",
    seedsMax: 10,
    shape: withTrainerKillers,
    line: {
      keeps: (after, before) => {
        const found = convictedIn(after, before);
        if (!found) return after;
        const { step, now, was, index, other } = found;
        const kept = [
          ...Object.values(now.receipts),
          ...Object.values(was.receipts).filter((one) => one.index === index),
        ];
        const receipts = Object.fromEntries(kept.filter((one) => one.index !== other).map((one) => [one.index, one]));
        const quarantined = now.quarantined.map((each) => (each === index ? other : each));
        return { ...after, groups: { ...after.groups, [step]: { ...now, receipts, quarantined } } };
      },
    },
  }),
  mind(
    "storm-not-seen",
    "that others are killed as well is forgotten, so that every kill counts in full against the group that was held",
    {
      profile: "kills",
      seedsMax: 10,
      shape: withSoundWork,
      stage: storm,
      line: { keeps: (after) => (after.outsideLosses ? { ...after, outsideLosses: [] } : after) },
    },
  ),
];

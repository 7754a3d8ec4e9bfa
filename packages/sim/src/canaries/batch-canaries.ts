/** Bugs about batches that end the trainers that compute them. */
import type { ControllerState } from "@muster/machines";
import type { Scenario } from "../cluster/scenario.ts";
import type { Canary } from "./canary.ts";
import { mind } from "./mind.ts";

/** Some samples end whoever trains on them. */
function withTrainerKillers(scenario: Scenario): Scenario {
  return { ...scenario, work: { ...scenario.work, trainerKillerRate: 0.01 } };
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
];

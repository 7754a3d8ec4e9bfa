/** Bugs about batches: those that end trainers, what a storm of kills looks like, and those that are changed. */
import type { ControllerState } from "@muster/machines/controller";
import { settingsAt, type WorkItem } from "@muster/protocol";
import type { Scenario } from "../cluster/scenario.ts";
import type { Fault } from "../faults/fault.ts";
import { type Canary, repeated } from "./canary.ts";
import { logicBug } from "./logic-bug.ts";

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

/** Steps from the third on have one group more. */
const enlarged = ({ config }: Scenario): readonly Fault[] => [
  {
    kind: "command",
    atMs: 1_000,
    id: "enlarge",
    command: { kind: "job.change", body: { settings: { groupsPerStep: config.batch.groupsPerStep + 1 }, fromStep: 3 } },
    againMs: [],
  },
];

/** The place of a group as if all steps before it had its own step's size. */
function byPresentSize(item: WorkItem, { plan, changes = [] }: ControllerState): WorkItem {
  if (item.purpose !== "train" || item.position === undefined) return item;
  const { groupsPerStep = plan.groupsPerStep } = settingsAt(changes, item.step);
  return { ...item, position: (item.step - 1) * groupsPerStep + item.index };
}

/** Canaries in the search for the group that ends trainers, and in batches that are changed. */
export const batchCanaries: readonly Canary[] = [
  logicBug(
    "prompts-by-present-size",
    "a group draws the prompt that it would have if all steps before it had its step's size",
    {
      profile: "quiet",
      seedsMax: 10,
      shape: (scenario) => ({ ...scenario, safetyMs: 60_000 }),
      stage: enlarged,
      line: {
        does: (effect, state) => {
          if (effect.type !== "command" || effect.kind !== "groups.lease") return effect;
          return {
            ...effect,
            body: { ...effect.body, items: effect.body.items.map((item) => byPresentSize(item, state)) },
          };
        },
      },
    },
  ),
  logicBug("batch-tried-for-ever", "lost attempts of a step are forgotten, and its batch is tried again for ever", {
    profile: "quiet",
    seedsMax: 10,
    shape: withTrainerKillers,
    line: { keeps: (after) => (Object.keys(after.losses ?? {}).length > 0 ? { ...after, losses: {} } : after) },
  }),
  logicBug("neighbour-given-up", "another group of the step is given up for the one that ends trainers", {
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
  logicBug(
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

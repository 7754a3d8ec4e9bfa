/** The keys of workers that score what was drawn, and what does not go together with them. */
import { workerReward } from "@muster/protocol";
import type { Field } from "./field.ts";
import { type Row, section } from "./field-section.ts";
import type { Relation } from "./relation.ts";

/** Rows of one kind of worker, which all land below `place`. */
function scorer(table: string, place: string, rows: Readonly<Record<string, Row>>): readonly Field[] {
  const placed = Object.entries(rows).map(([key, [kind, fallback, says, name = key]]) => {
    const row: Row = [kind, fallback, says, `${place}.${name}`];
    return [key, row] as const;
  });
  return section(table, Object.fromEntries(placed));
}

/** What both kinds have, for so many of `what` in a request. */
const common = (what: string): Readonly<Record<string, Row>> => ({
  directory: ["path", ".", "Folder that it starts in; left out, that where muster is started."],
  environment: ["optional-text", "", "What its environment has besides: NAME=value, by spaces."],
  build: ["optional-text", "", "Build that it must have; empty for whatever it says."],
  batch: ["integer", 64, `${what} in one request, at most.`],
  start: ["duration", "60s", "Time from its start until it said what it is.", "startMs"],
  call: ["duration", "10s", "Time for one request.", "callMs"],
  silence: [
    "duration",
    "15s",
    "Time without an answer to a ping, or after a request was cancelled, after which it is taken for hung.",
    "silenceMs",
  ],
  memory: ["size", "0B", "Memory of its own that it may have, with what it starts; 0B for no limit.", "memoryBytes"],
  arena: ["size", "16MiB", "Size of the memory that it is given requests in.", "arenaBytes"],
});

/** The worker of `task.reward = "worker"`, and that of the reference policy. */
export const scorerFields: readonly Field[] = [
  ...scorer("reward.worker", "scorers.reward", {
    command: [
      "optional-text",
      "",
      `Program that judges responses in the worker protocol, with its arguments, for task.reward = "${workerReward}"; each rollout replica starts one. Empty for none.`,
    ],
    ...common("Responses that it judges"),
  }),
  ...scorer("reference.worker", "scorers.reference", {
    command: [
      "optional-text",
      "",
      'Program that is the reference policy in the worker protocol, with its arguments, for training.kl_in = "reward"; each policy replica starts one. Empty for none.',
    ],
    ...common("Sequences that it is asked for"),
  }),
];

/** Whoever judges is named once, and is neither late for a lease nor taken for a sampler that hangs. */
export const scorerRelations: readonly Relation[] = [
  {
    keys: ["task.reward", "reward.worker.command"],
    holds: ({ task, scorers }) => task.reward !== workerReward || scorers?.reward !== undefined,
    rule: "{0} needs the program that judges, and {1} names none",
    fix: 'set reward.worker.command, such as "python3 my_reward.py"',
  },
  {
    keys: ["task.reward", "reward.worker.command"],
    holds: ({ task, scorers }) => task.reward === workerReward || scorers?.reward === undefined,
    rule: "{1} is set, and {0} never asks it",
    fix: `set task.reward = "${workerReward}", or leave reward.worker out`,
  },
  {
    keys: ["reward.worker.call", "timing.lease"],
    holds: ({ timing, scorers }) => !scorers?.reward || scorers.reward.callMs < timing.leaseMs,
    rule: "{0} must be shorter than {1}: a slow reward must not cost the whole lease",
    fix: "raise timing.lease or lower reward.worker.call",
  },
  ...(["reward", "reference"] as const).map(
    (kind): Relation => ({
      keys: [`${kind}.worker.call`, "health.hung_min"],
      holds: ({ health, scorers }) => (scorers?.[kind]?.callMs ?? 0) <= health.hungMinMs,
      rule: "{0} must not be longer than {1}: a replica that waits for it must not look as if it hung",
      fix: `raise health.hung_min (and health.hung_max) or lower ${kind}.worker.call`,
    }),
  ),
  {
    keys: ["reference.worker.command", "training.kl_coefficient"],
    holds: ({ scorers, training }) => !scorers?.reference || (training?.klCoefficient ?? 0) > 0,
    rule: "{0} has no effect with {1}",
    fix: "raise training.kl_coefficient or leave reference.worker out",
  },
  {
    keys: ["reference.worker.command", "training.kl_in"],
    holds: ({ scorers, training }) => !scorers?.reference || training?.klIn === "reward",
    rule: "{0} gives log-probabilities, and with {1} the loss needs those of its own engine",
    fix: 'set training.kl_in = "reward", or leave reference.worker out for an engine that has a reference policy of its own',
  },
  {
    keys: ["reference.worker.command", "training.reference"],
    holds: ({ scorers, training }) => !scorers?.reference || (training?.reference ?? null) === null,
    rule: "{0} and {1} are both set: one of them is the reference policy",
    fix: "leave one of them out",
  },
];

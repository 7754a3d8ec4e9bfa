/** The figures of the last committed step on the metrics page: those that its event has, to the last bit. */
import { firstNames, type Metrics } from "@muster/base";
import type { AnnounceEffect } from "@muster/machines/controller";
import { type Body, figureMetricOf, type StepComponent, stepComponentsMax, stepFigures } from "@muster/protocol";

/** Makes the gauges; nothing is on the page before the first commit of this term. @returns Takes what the controller says. */
export function figureMetersOn(metrics: Metrics): (fact: Pick<AnnounceEffect, "kind" | "body">) => void {
  let last: Body<"step.committed"> | null = null;
  for (const { field, says } of stepFigures)
    metrics.gauge({
      name: figureMetricOf(field),
      help: says,
      read: () => {
        const value = last?.[field];
        return value === undefined ? [] : [{ value }];
      },
    });
  metrics.gauge({
    name: "muster_train_step",
    help: "The step that the figures of training are of.",
    read: () => (last ? [{ value: last.step }] : []),
  });
  metrics.gauge({
    name: "muster_replica_version",
    help: "Version that a trainer or sampler held at the last commit, of the 64 that are furthest behind; -1 for none of its lineage.",
    labels: ["replica"],
    read: () => (last?.held ?? []).map(({ id, version }) => ({ value: version ?? -1, labels: { replica: id } })),
  });
  const takeComponents = componentMetersOn(metrics);
  return ({ kind, body }) => {
    if (kind !== "step.committed") return;
    last = body as Body<"step.committed">;
    takeComponents(last.components ?? []);
  };
}

/** Parts of rewards: a label for each of the first names that are heard of, and none for others, whatever a reward makes up. */
function componentMetersOn(metrics: Metrics): (components: readonly StepComponent[]) => void {
  let names: readonly string[] = [];
  let last: readonly StepComponent[] = [];
  const gauge = (field: "mean" | "spread" | "count", help: string): void =>
    void metrics.gauge({
      name: `muster_train_reward_component_${field}`,
      help: `${help} Of the first ${stepComponentsMax} names.`,
      labels: ["component"],
      read: () =>
        last.flatMap((one) => (names.includes(one.name) ? { value: one[field], labels: { component: one.name } } : [])),
    });
  gauge("mean", "Mean of a part of the rewards, of the trajectories that have it.");
  gauge("spread", "Standard deviation of a part of the rewards, of the trajectories that have it.");
  gauge("count", "Trajectories that have a part of the rewards.");
  return (components) => {
    last = components;
    const heard = components.map(({ name }) => name);
    names = firstNames(names, heard, stepComponentsMax);
  };
}

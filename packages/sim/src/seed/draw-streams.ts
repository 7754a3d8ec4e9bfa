/** Streams of the broker that hold less than the job would like. */
import type { Random } from "@muster/base";
import type { Scenario } from "../cluster/scenario.ts";

/** In which share of the jobs about what is stored the groups stream is full again and again. */
const crampedShare = 0.3;

/** What a piece of a group costs beside what is in it. */
const envelopeBytes = 300;

/** The same job with a groups stream that has room for so many times what is sampled at a time. Pure. */
export function cramped(scenario: Scenario, times: number): Scenario {
  const { batch, stalenessMax, limits } = scenario.config;
  const bodyBytes = 600 + 250 * batch.groupSize;
  const pieces = Math.ceil(bodyBytes / limits.messageBytes);
  const groupBytes = bodyBytes + (pieces > 1 ? pieces * envelopeBytes : 0);
  return { ...scenario, bytesMax: { groups: times * (stalenessMax + 1) * batch.groupsPerStep * groupBytes } };
}

/** In some jobs of profile `storage` the groups stream is small. Pure. */
export function withDrawnStreams(scenario: Scenario, random: Random): Scenario {
  return scenario.profile === "storage" && random.next() < crampedShare ? cramped(scenario, 2) : scenario;
}

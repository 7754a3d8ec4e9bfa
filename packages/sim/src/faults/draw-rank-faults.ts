/** What may happen to the processes of a trainer of several that are not its rank 0. */
import { randomOf } from "@muster/base";
import { type JobConfig, processNameOf } from "@muster/protocol";
import { trainerSizeOf } from "../ranks/cut.ts";
import { drawRankArms } from "./draw-arms.ts";
import type { Fault } from "./fault.ts";

/** In which share of such jobs something does. */
const share = 0.75;

/** Of those, in which share one of them hears nothing any more. */
const deafShare = 0.5;

/** Draws their ends, stand-stills, slowness, deafness, wrong bits and cut links. Pure. */
export function drawRankFaults(
  seed: number,
  { config, safetyMs }: { readonly config: JobConfig; readonly safetyMs: number },
): readonly Fault[] {
  const random = randomOf(seed, 193);
  if (random.next() >= share) return [];
  const rankOf = (policy: number): string =>
    processNameOf(`policy-${policy}`, 1 + random.below(trainerSizeOf(config) - 1));
  const trainer = (): number => 1 + random.below(config.replicas.policy);
  const node = (): string => rankOf(trainer());
  const atMs = (): number => Math.round(random.next() * safetyMs);
  const forMs = (): number => Math.round(1_000 + 20_000 * random.next());
  const still = (["pause", "suspend", "hang"] as const)[random.below(3)] ?? "pause";
  const all: readonly Fault[] = [
    { kind: "kill", atMs: atMs(), node: node(), isSeen: random.next() < 0.5 },
    { kind: "kill", atMs: atMs(), node: node(), isSeen: random.next() < 0.5 },
    { kind: still, atMs: atMs(), forMs: forMs(), node: node() },
    { kind: "slow", atMs: atMs(), forMs: 2 * forMs(), node: node(), factor: 1 + random.next() },
    { kind: "bit-flip", atMs: atMs(), forMs: forMs(), node: node() },
    { kind: "data-cut", atMs: atMs(), forMs: forMs(), between: [node(), node()] },
  ];
  const drawn = [...all.filter(() => random.next() < 0.5), ...drawRankArms(random)];
  return randomOf(seed, 197).next() < deafShare ? [...drawn, { kind: "stick", atMs: atMs(), node: node() }] : drawn;
}

/** The times that recovery aims at (reliability 6.3, G8), beside what a run measured. Nothing is judged by them: a busy machine misses them. Pure. */
import { detectionPatience } from "@muster/machines";
import type { Spread } from "./measure.ts";

/** One aim and what was measured. */
export interface Aim {
  readonly what: string;
  /** `<kind>.<role>`. */
  readonly kind: string;
  readonly share: "p50" | "p99";
  /** How many times were measured. */
  readonly n: number;
  /** `null` when there was nothing to measure. */
  readonly measured_ms: number | null;
  readonly aim_ms: number;
  readonly met: boolean | null;
}

/** Compares what a run measured with the aims; `stepMs` is how long a step takes in peace. */
export function aimsOf(
  recovery: Readonly<Record<string, Spread>>,
  { deadAfterMs, stepMs }: { readonly deadAfterMs: number; readonly stepMs: number },
): readonly Aim[] {
  const frozen = (role: "policy" | "rollout"): number => 1.2 * detectionPatience[role] * deadAfterMs;
  const wanted: readonly (readonly [string, string, "p50" | "p99", number])[] = [
    ["sampler killed: its work taken over", "kill.rollout", "p99", 2_000],
    ["trainer killed: next commit", "kill.policy", "p50", 1_000 + stepMs],
    ["trainer killed: next commit", "kill.policy", "p99", 5_000],
    ["sampler frozen: its work taken over", "freeze.rollout", "p99", frozen("rollout")],
    ["trainer frozen: next commit", "freeze.policy", "p99", frozen("policy")],
    ["controller killed: the next one acts", "controller.controller", "p50", 5_000],
    ["broker killed: next commit", "broker.broker", "p99", 5_000],
  ];
  return wanted.map(([what, kind, share, aim]) => {
    const spread = recovery[kind];
    const measured_ms = spread ? spread[`${share}_ms`] : null;
    const aim_ms = Math.round(aim);
    const met = measured_ms === null ? null : measured_ms <= aim_ms;
    return { what, kind, share, n: spread?.n ?? 0, measured_ms, aim_ms, met };
  });
}

/** The table for people. */
export function aimsText(aims: readonly Aim[]): readonly string[] {
  const width = Math.max(...aims.map(({ what }) => what.length));
  const head = `  ${"recovery: measured / target, ms".padEnd(width)}  ${["n", "", "measured", "target"].map((name) => name.padStart(8)).join("")}`;
  const rows = aims.map(({ what, share, n, measured_ms, aim_ms, met }) => {
    const figures = [String(n), share, measured_ms === null ? "–" : String(measured_ms), String(aim_ms)];
    const verdict = met === null ? "" : met ? "  met" : "  missed";
    return `  ${what.padEnd(width)}  ${figures.map((figure) => figure.padStart(8)).join("")}${verdict}`;
  });
  return [head, ...rows];
}

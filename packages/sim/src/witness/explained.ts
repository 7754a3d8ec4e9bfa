/** What faults explain: silences, by whom and until when (L6). */
import type { Outage } from "@muster/check/internal";
import type { Scenario } from "../cluster/scenario.ts";
import { type Fault, isChange } from "../faults/fault.ts";
import { allowanceOf } from "./allowance.ts";

const loudFaults: readonly string[] = [
  "kill",
  "gone",
  "kill-all",
  "drain",
  "slow",
  "clock-jump",
  "broker-restart",
  "broker-stall",
  "forgery",
  "spoil",
  "misreport",
  "second-controller",
];

const brokerOutages: readonly string[] = ["broker-restart", "broker-stall", "suffix-loss"];

/** Faults after which what anybody holds may be late or lost, whoever it is. */
const wideFaults: readonly Fault["kind"][] = [
  "noise",
  "broker-restart",
  "broker-stall",
  "suffix-loss",
  "consumer-expiry",
  "second-controller",
  "forgery",
];

/** True when any holder's loss may have one of these faults as its cause. */
export function isWide(faults: readonly Fault[]): boolean {
  return faults.some(({ kind }) => wideFaults.includes(kind));
}

/** True when kills and drains are all that goes wrong, and there are some. */
export function areKills(faults: readonly Fault[]): boolean {
  return faults.length > 0 && faults.every(({ kind }) => kind === "kill" || kind === "kill-all" || kind === "drain");
}

/** True for faults that leave no silence of a replica to misread: its end is seen, or it is the controller that stood still. */
function isLoud(fault: Fault): boolean {
  const isController = (fault.kind === "pause" || fault.kind === "hang") && fault.node === "controller";
  return isController || isChange(fault) || loudFaults.includes(fault.kind);
}

/** When the broker was away, and when whose silence has a cause of its own; none where a failpoint may be the cause. */
export function outagesOf(faults: readonly Fault[]): readonly Outage[] {
  if (faults.some(({ kind }) => kind === "failpoint")) return [];
  return faults.flatMap((fault) => {
    const isBroker = brokerOutages.includes(fault.kind);
    if (!("atMs" in fault) || !("forMs" in fault) || (!isBroker && !("node" in fault))) return [];
    return { node: "node" in fault ? fault.node : null, fromMs: fault.atMs, toMs: fault.atMs + fault.forMs };
  });
}

/**
 * Until when, in ms of the world, it may be explained that somebody who lives is evicted: some time after the last fault that left a silence, or a
 * wrong word, has healed. 0 where there is none; never where an operator changes the fleet. Pure.
 */
export function explainedUntilMs(scenario: Scenario): number {
  const { faults, safetyMs, controllers = 1 } = scenario;
  const quiet = faults.filter((fault) => !isLoud(fault));
  if (quiet.length === 0) return 0;
  const healed = quiet.map((fault) => Math.min(safetyMs, healedMs(fault, safetyMs)));
  const lastMs = Math.max(...healed, controllers > 1 ? safetyMs : 0);
  return lastMs + settleMsOf(scenario);
}

/** How long a fault may lead to verdicts after it has healed: a silence, a step whose orders were lost, or two hangs one after the other. */
function settleMsOf(scenario: Scenario): number {
  const { config, faults } = scenario;
  const { deadAfterMs, stepMs } = config.timing;
  const usualMs = deadAfterMs + Math.max(stepMs, 2 * config.health.hungMaxMs);
  // What a failpoint struck may come to light with the next thing that is done there.
  const isPointed = faults.some(({ kind }) => kind === "failpoint");
  return usualMs + (isPointed ? allowanceOf(scenario).progressMs : 0);
}

/** When a fault is over; what is noticed by others later, at the end of the safety phase. */
function healedMs(fault: Fault, safetyMs: number): number {
  if (!("atMs" in fault) || fault.kind === "lie" || fault.kind === "theft" || fault.kind === "rot") return safetyMs;
  return fault.atMs + ("forMs" in fault ? fault.forMs : 0);
}

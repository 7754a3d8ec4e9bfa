/** What kinds of faults a profile draws from, and how often each. */
import type { Fault } from "./fault.ts";

/** Faults that happen at a time of their own. */
export type TimedKind = Exclude<
  Fault["kind"],
  "failpoint" | "noise" | "command" | "gone" | "stick" | "spoil" | "misreport" | "suffix-loss" | "consumer-expiry"
>;

/** Relative frequencies. */
export type Weights = readonly (readonly [TimedKind, number])[];

const swarm: Weights = [
  ["kill", 1],
  ["kill-all", 1],
  ["pause", 1],
  ["suspend", 1],
  ["hang", 1],
  ["slow", 1],
  ["clock-jump", 1],
  ["drain", 1],
  ["disconnect", 1],
  ["partition", 1],
  ["data-cut", 1],
  ["corruption", 1],
  ["bit-flip", 1],
  ["broker-restart", 1],
  ["broker-stall", 1],
  ["forgery", 1],
  ["second-controller", 1],
  ["power-loss", 1],
];

/**
 * The causes of 419 interruptions in 54 days of training on 16,384 GPUs ("The Llama 3 Herd of Models", table 5), each as the fault that
 * it would be here: a lost GPU, host or driver ends the process, software bugs end or hang it, switches cut links.
 */
const llama3: Weights = [
  // Faulty GPU 148, HBM3 72, GPU SRAM 19, power supply 3, chassis 2, expansion board 2, CPU 2, system memory 2, half of the software bugs 27.
  ["kill", 277],
  // The other half of the software bugs 27, GPU system processor 17, watchdog time-outs of collectives 7.
  ["hang", 51],
  // Network switch and cable 35, half each.
  ["partition", 18],
  ["data-cut", 17],
  // Unplanned maintenance of hosts 32.
  ["drain", 32],
  // Network interface 7.
  ["disconnect", 7],
  // Silent data corruption 6.
  ["bit-flip", 6],
  // Temperature and sensors 6.
  ["slow", 6],
  // Dependencies 2.
  ["broker-restart", 2],
  // Disks 3.
  ["power-loss", 3],
];

/** What may happen to nodes and to what they run, while the operator changes the fleet. */
const fleet: Weights = [
  ["kill", 3],
  ["kill-host", 3],
  ["ailing-host", 2],
  ["kill-all", 1],
  ["pause", 2],
  ["hang", 1],
  ["suspend", 1],
  ["drain", 1],
  ["disconnect", 1],
  ["partition", 2],
  ["data-cut", 1],
  ["broker-restart", 1],
  ["broker-stall", 1],
  ["second-controller", 1],
];

/** What may happen to many at once, and to whoever counts them. */
const crowd: Weights = [
  ["kill", 4],
  ["kill-all", 1],
  ["pause", 1],
  ["suspend", 1],
  ["drain", 1],
  ["disconnect", 1],
  ["partition", 1],
  ["broker-restart", 1],
  ["broker-stall", 1],
  ["second-controller", 1],
];

/** The kinds of faults of each profile that has any. */
export const faultWeights: Readonly<Record<string, Weights>> = {
  kills: [
    ["kill", 1],
    ["kill-all", 1],
    ["drain", 1],
  ],
  broker: [
    ["broker-restart", 1],
    ["broker-stall", 1],
    ["disconnect", 1],
    ["partition", 1],
  ],
  "lease-broken": [
    ["kill", 2],
    ["pause", 2],
    ["partition", 1],
    ["broker-stall", 1],
  ],
  crowd,
  multitude: crowd,
  fleet,
  storage: [
    ["rot", 4],
    ["power-loss", 1],
    ["kill-all", 1],
    ["kill", 1],
  ],
  llama3,
  stragglers: [["slow", 1]],
  liars: [
    ["lie", 6],
    ["kill", 1],
  ],
  perjury: [["lie", 1]],
  thieves: [
    ["theft", 6],
    ["kill", 1],
  ],
  barriers: [
    ["kill", 4],
    ["kill-all", 1],
    ["pause", 1],
    ["disconnect", 1],
    ["partition", 1],
    ["broker-restart", 1],
    ["broker-stall", 1],
    ["second-controller", 1],
  ],
  drift: swarm,
  swarm,
};

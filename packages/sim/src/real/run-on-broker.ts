/**
 * Runs a seed on a real broker in real time: the job, the faults and the checkers of the simulation, with production's transport and a nats-server in
 * the place of the simulated network. The weights must be those of the quiet run in virtual time.
 */
import type { Scenario } from "../cluster/scenario.ts";
import type { Fault } from "../faults/fault.ts";
import { drawScenario, type Profile } from "../seed/draw-scenario.ts";
import { runScenario } from "../seed/run-scenario.ts";
import { violationBeside } from "../seed/run-seed.ts";
import type { SeedResult } from "../seed/tally.ts";
import { RealWorld } from "../world/real-world.ts";
import { RealNetwork } from "./real-network.ts";

/** How much faster work is, and faults come, than in virtual time. Time-outs stay: they have to outlast what a real broker does. */
const hasteDefault = 5;

/** What needs a hand that a real broker has not: to speak for others, or to make consumers expire. */
const unreal: readonly Fault["kind"][] = ["forgery", "lie", "theft", "spoil", "misreport", "consumer-expiry"];

/** What takes how long depends on the machine; virtual time judges that. */
const unjudged = ["L4", "L5", "L6", "L8"];

/**
 * The scenario of a seed as it can be run in real time: the same victims at the same points of the job, but for what needs a hand that a real
 * broker has not. Work is `haste` times as fast, and faults come as much sooner. Pure.
 */
export function realScenario(seed: number, profile: Profile, haste = hasteDefault): Scenario {
  const drawn = drawScenario(seed, profile);
  const fast = (ms: number): number => Math.ceil(ms / haste);
  const { work, faults, safetyMs } = drawn;
  return {
    ...drawn,
    work: {
      ...work,
      initializeMs: fast(work.initializeMs),
      shardMs: fast(work.shardMs),
      stageMs: fast(work.stageMs),
      responseMs: fast(work.responseMs),
      swapMs: fast(work.swapMs),
      judgeMs: fast(work.judgeMs),
    },
    faults: faults
      .filter(({ kind }) => !unreal.includes(kind))
      .map((fault) => ("atMs" in fault ? { ...fault, atMs: fast(fault.atMs) } : fault)),
    safetyMs: fast(safetyMs),
  };
}

/** Runs a scenario on a broker of its own (`natsServer` is the path of the program), and the same one without faults in virtual time. */
export async function runOnBroker(scenario: Scenario, natsServer: string): Promise<SeedResult> {
  const world = new RealWorld(scenario.seed);
  const losses = scenario.faults.flatMap((fault) =>
    fault.kind === "suffix-loss" ? [{ stream: fault.stream, fromMs: fault.atMs - fault.lostMs }] : [],
  );
  let network: RealNetwork | null = null;
  try {
    const result = await runScenario(scenario, undefined, {
      world,
      unjudged,
      makeNetwork: (options) => {
        network = new RealNetwork(options, { natsServer, losses, onFailed: (error) => world.fail(error) });
        return network;
      },
    });
    if (result.violations.length > 0) return { result, others: [], isCompared: false, isRepeated: false };
    const quiet = await runScenario({ ...scenario, faults: [], controllers: 1 });
    const violation = violationBeside(scenario, result, quiet);
    const judged = violation && violation.invariant !== "L8" ? { ...result, violations: [violation] } : result;
    return { result: judged, others: [quiet], isCompared: scenario.config.mode === "sync", isRepeated: false };
  } finally {
    await (network as RealNetwork | null)?.close();
  }
}

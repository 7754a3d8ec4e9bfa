/** Runs one scenario under the eyes of all checkers. */
import { Judge, type Violation } from "@muster/check/internal";
import type { ChangedSettings, JobConfig } from "@muster/protocol";
import type { Bug } from "../cluster/bug.ts";
import { Cluster } from "../cluster/cluster.ts";
import type { ClusterGiven } from "../cluster/cluster-given.ts";
import type { Scenario } from "../cluster/scenario.ts";
import type { Strike } from "../faults/failpoints.ts";
import { Script } from "../scripts/script.ts";
import { type JobEnd, Witness } from "../witness/witness.ts";
import { VirtualWorld, type World } from "../world/world.ts";

/** What a run came to. */
export interface RunResult {
  readonly scenario: Scenario;
  readonly violations: readonly Violation[];
  readonly end: JobEnd | null;
  /** What operators changed while it ran. */
  readonly changes: readonly ChangedSettings[];
  /** Hash of the log of events: equal for equal scenarios and code. */
  readonly hash: string;
  /** The last lines of the log. */
  readonly lines: readonly string[];
  readonly virtualMs: number;
  readonly events: number;
  /** Processes times hours of virtual time. */
  readonly nodeHours: number;
  readonly faults: ReadonlyMap<string, number>;
  /** How often each failpoint was reached. */
  readonly points: ReadonlyMap<string, number>;
  readonly strikes: readonly Strike[];
  /** The longest virtual time without progress after the faults. */
  readonly longestMs: number;
  /** The longest that it took, in virtual ms, to find out the death of a trainer, and to build the next mesh. */
  readonly losses: { readonly detectMs: number; readonly meshMs: number };
}

/** Where a scenario is run. */
export interface Stage extends Pick<ClusterGiven, "makeNetwork"> {
  readonly world: World;
  /** Invariants that can not be judged there. */
  readonly unjudged?: readonly string[];
}

/** Runs a scenario to its end. `bug` is a deliberate one, to see that the checkers see it. */
export async function runScenario(
  scenario: Scenario,
  bug?: Bug,
  { world, unjudged, ...stage }: Stage = { world: new VirtualWorld(scenario.seed) },
): Promise<RunResult> {
  const judge = new Judge(world, unjudged);
  const witness = new Witness(world, judge, { scenario, bug });
  const cluster = new Cluster(world, scenario, { observer: witness, ...stage, ...(bug ? { bug } : {}) });
  witness.watchDisk(cluster.disk);
  cluster.start();
  const script = scriptOf({ world, scenario, judge, cluster });
  script?.start();
  const isOver = (): boolean => (cluster.isOver && (script?.isOver ?? true)) || judge.violations.length > 0;
  const how = await world.run(isOver, scenario.limitMs);
  await witness.conclude();
  if (judge.violations.length === 0) judgeEnd(judge, { how, witness, cluster });
  return {
    scenario,
    violations: judge.violations,
    end: witness.end,
    hash: judge.digest(),
    lines: judge.lines(),
    changes: witness.jobState.changes ?? [],
    virtualMs: world.nowMs,
    events: world.events,
    nodeHours: (world.nowMs / 3_600_000) * (nodesOf(scenario.config) + (scenario.fleet?.nodes.length ?? 0)),
    faults: witness.faults,
    points: cluster.failpoints.counts,
    strikes: cluster.failpoints.strikes,
    longestMs: witness.longestMs,
    losses: witness.losses,
  };
}

function scriptOf(given: {
  readonly world: World;
  readonly scenario: Scenario;
  readonly judge: Judge;
  readonly cluster: Cluster;
}): Script | null {
  const { world, scenario, judge, cluster } = given;
  const { script: shape } = scenario;
  const { network } = cluster;
  return shape ? new Script(world, { scenario, shape, judge, network, isJobOver: () => cluster.isJobOver }) : null;
}

/** Once the faults are over the job ends, and nothing of it is left (L1, L2). */
function judgeEnd(
  judge: Judge,
  { how, witness, cluster }: { readonly how: string; readonly witness: Witness; readonly cluster: Cluster },
): void {
  const { end } = witness;
  if (witness.isCut) {
    judge.require(witness.isCutNamed, "D4", () => "the journal has lost its end, and no controller has named that");
    return;
  }
  const left = cluster.living().map(({ name }) => name);
  judge.require(how === "over", "L1", () => `the job has not ended (${how}); ${left.join(", ")} are left`);
  if (end?.outcome === "failed" && witness.isHopeless) return;
  judge.require(
    end?.outcome === "done",
    "L1",
    () => `the job ended ${end?.outcome ?? "without a word"}: ${end?.reason ?? ""}`,
  );
  judge.require(end?.ledger.pending === 0, "L2", () => `${end?.ledger.pending} trajectories are pending at the end`);
}

function nodesOf({ replicas }: JobConfig): number {
  return 1 + replicas.policy + replicas.rollout + replicas.checkpoint;
}

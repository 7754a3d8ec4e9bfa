/** Bugs of trainers of several processes, each of which has a shard of the training state. */
import type { Scenario } from "../cluster/scenario.ts";
import type { Fault } from "../faults/fault.ts";
import { withTrainersOf } from "../seed/draw-scenario.ts";
import { type Canary, repeated } from "./canary.ts";
import { patched } from "./patched.ts";

/** Trainers of two processes, two of them at least. */
function ofTwo(scenario: Scenario): Scenario {
  const { config } = scenario;
  const policy = Math.max(2, config.replicas.policy);
  const replicas = { ...config.replicas, policy };
  return { ...scenario, config: withTrainersOf({ ...config, replicas }, 2) };
}

/** A job whose end is a function of its seed, with two gradients of each shard in a step. */
function ofTwoUpdates(scenario: Scenario): Scenario {
  const { config, ...rest } = ofTwo(scenario);
  const batch = { ...config.batch, groupsPerStep: Math.max(4, config.batch.groupsPerStep), minibatches: 2 };
  return { ...rest, config: { ...config, batch, mode: "sync", stalenessMax: 0 } };
}

/** Rank 1 of the first trainer is late with its part of a gradient now and then, and the other trainer dies meanwhile. */
const lateRanks = (scenario: Scenario): readonly Fault[] => [
  ...Array.from({ length: 40 }, (_, i) => ({
    kind: "failpoint" as const,
    point: "policy.rank-accumulate",
    nth: 3 + 5 * i,
    action: { type: "delay" as const, delayMs: 1_500 + 900 * (i % 9) },
  })),
  ...repeated(scenario, 7_000, (atMs) => ({ kind: "kill", atMs, node: "policy-2", isSeen: true })),
];

/** Trainers die one after the other, and come back without weights. */
const joiners = (scenario: Scenario): readonly Fault[] =>
  repeated(scenario, 20_000, (atMs) => ({ kind: "kill", atMs, node: "policy-2", isSeen: true }));

/** Rank 1 of the first trainer hears nothing any more, from the first step on. */
const deafRank = ({ safetyMs }: Scenario): readonly Fault[] => [
  { kind: "stick", atMs: Math.round(safetyMs / 2), node: "policy-1.1" },
];

/** How long an engine that does not wait for its ranks waits for them. */
const hastyMs = 500;

interface Answer {
  readonly rank: number;
  readonly done?: { readonly sections: readonly { readonly digest: string }[] };
}

/** The answers of all ranks with the digests of the first. */
function withFirstDigests(answers: readonly string[]): readonly string[] {
  const read = answers.map((answer) => JSON.parse(answer) as Answer);
  const first = read[0]?.done?.sections ?? [];
  return read.map((answer) => {
    const sections = answer.done?.sections.map((section, i) => ({ ...section, digest: first[i]?.digest ?? "" }));
    return JSON.stringify({ ...answer, done: { ...answer.done, sections } });
  });
}

/** Canaries of shards of trainers. */
export const trainerShardCanaries: readonly Canary[] = [
  {
    name: "shard-vote-of-one-rank",
    says: "a vote names the digest of the first rank's shard for those of all ranks",
    profile: "quiet",
    seedsMax: 10,
    shape: ofTwo,
    make: () => ({
      ports: (ports) => ({
        ...ports,
        policyEngine: async (config, training) => {
          const engine = await ports.policyEngine(config, training);
          const performAll: typeof engine.performAll = async (ticket, signal) => {
            const answers = (await engine.performAll?.(ticket, signal)) ?? [];
            return ticket.includes('"do":"digest"') ? withFirstDigests(answers) : answers;
          };
          return patched(engine, { performAll });
        },
      }),
    }),
  },
  {
    name: "shard-late-gradient",
    says: "a rank writes its part of a gradient for the epoch at work, whatever epoch it computed it for",
    profile: "quiet",
    seedsMax: 30,
    shape: (scenario) => ({ ...ofTwoUpdates(scenario), safetyMs: Math.round(scenario.limitMs / 8) }),
    stage: lateRanks,
    make: () => ({
      training: (training) => {
        let atWork = 0;
        const perform: typeof training.perform = async (ticket, signal) => {
          const [, epoch] = /"do":"meet","epoch":(\d+)/.exec(ticket) ?? [];
          const answer = await training.perform(ticket, signal);
          if (epoch !== undefined) atWork = Number(epoch);
          return answer;
        };
        return patched(training, { perform, gradient: (shard) => training.gradient(shard, atWork) });
      },
    }),
  },
  {
    name: "shard-not-taken",
    says: "a rank says that it has its shard of what is pulled or loaded, and goes on with what it had",
    profile: "quiet",
    seedsMax: 10,
    shape: (scenario) => ({ ...ofTwo(scenario), safetyMs: Math.round(scenario.limitMs / 8) }),
    stage: joiners,
    make: () => ({
      training: (training, process) => {
        if (!process.node.includes(".")) return training;
        const attach: typeof training.attach = (state) => training.attach(patched(state, { restore: async () => {} }));
        return patched(training, { attach });
      },
    }),
  },
  {
    name: "deaf-rank-answered-for",
    says: "an engine says of a rank that does not answer that it failed",
    profile: "quiet",
    seedsMax: 10,
    shape: (scenario) => {
      const { config, ...rest } = ofTwo(scenario);
      return { ...rest, config: { ...config, steps: 60 }, safetyMs: 30_000, limitMs: 10 * rest.limitMs };
    },
    stage: deafRank,
    make: () => ({
      ports: (ports, process) => ({
        ...ports,
        policyEngine: async (config, training) => {
          const engine = await ports.policyEngine(config, training);
          const performAll: typeof engine.performAll = async (ticket, signal) => {
            const { order } = JSON.parse(ticket) as { readonly order: string };
            const failed = { code: "", message: "it takes too long", params: {} };
            const forAll = Array.from({ length: 2 }, (_, rank) =>
              JSON.stringify({ order, rank, build: ports.engineBuild, failed }),
            );
            return await Promise.race([
              engine.performAll?.(ticket, signal) ?? [],
              process.sleep(hastyMs).then(() => forAll),
            ]);
          };
          return patched(engine, { performAll });
        },
      }),
    }),
  },
];

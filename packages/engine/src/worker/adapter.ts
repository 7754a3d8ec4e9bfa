/** Programs of the user as engines: `engine.kind = "worker"`. */
import { spawnSync } from "node:child_process";
import { statfsSync } from "node:fs";
import { messageOf } from "@muster/base";
import { needsOfJob } from "@muster/data";
import type { JobConfig } from "@muster/protocol";
import { referenceOf } from "../algorithms/loss-needs.ts";
import { errors } from "../errors.ts";
import { guarded } from "../programs/command.ts";
import type {
  EngineAdapter,
  EngineFinding,
  EngineOptions,
  EngineProblem,
  EngineRole,
  ReplicaRank,
} from "../registry/adapter.ts";
import { describeWorker } from "./describe-worker.ts";
import { isEngine, type WorkerSelf } from "./description.ts";
import { protocolVersion } from "./messages.ts";
import { openWorker } from "./open-link.ts";
import { workerOptionsOf, workerSchema } from "./options.ts";
import { WorkerPolicyEngine } from "./policy-engine.ts";
import { openRankWorker, withRank } from "./rank-worker.ts";
import type { OpenSharedMemory } from "./region-memory.ts";
import { WorkerRolloutEngine } from "./rollout-engine.ts";

/**
 * The adapter of workers. What a worker computes is its own; here is only how it is spoken to.
 *
 * @param env - Environment that workers inherit, but for what is meant for Muster itself.
 * @param openMemory - Opens the memory of their regions; without it they are files.
 */
export const workerAdapterOf = (
  env: Readonly<Record<string, string | undefined>>,
  openMemory?: OpenSharedMemory,
): EngineAdapter => ({
  kind: "worker",
  roles: ["policy", "rollout"],
  schema: workerSchema,
  build: () => `worker-protocol-${protocolVersion}`,
  describe(options, needs) {
    const described = describeWorker(workerOptionsOf(options, env), needs);
    if (!isEngine(described))
      throw errors.WorkerRefuses({ reason: `it is a worker for ${described.roles.join(" and ")}, and no engine` });
    const { modelId, vocab, maxContext, tensors, modelConfig, deterministic, logprobs, losses = [], build } = described;
    const model = { modelId, vocab, maxContext, tokenizer: needs.tokenizer, tensors, modelConfig };
    return { ...model, deterministic, logprobs, losses, transports: ["inline"], program: build };
  },
  check(options, config) {
    const roles = (["policy", "rollout"] as const).filter((role) => config.engine[role].adapter === "worker");
    try {
      const described = describeWorker(workerOptionsOf(options, env), needsOfJob(config));
      const can = described.roles.join(" and ");
      const alone = roles.flatMap((role) => aloneProblem(role, described, config));
      if (alone.length > 0) return alone;
      return roles
        .filter((role) => !described.roles.includes(role))
        .map((role) => ({
          keys: [keyOf[role]],
          text: `${keyOf[role]} = "worker": the worker says that it is ${can} only; name an engine that is ${role} there`,
        }));
    } catch (error) {
      return [{ keys: ["engine.worker.command"], text: `the worker can not begin: ${messageOf(error)}` }];
    }
  },
  doctor: async () => [sharedMemory(), guard(), python()],
  openPolicy: async (options, { needs, config, rank }) => {
    const opened = await openWorker("policy", optionsFor(options, env, rank), needs, openMemory);
    const engine = new WorkerPolicyEngine(opened);
    const source = referenceOf(config);
    try {
      if (source) await engine.openReference(source);
      return engine;
    } catch (error) {
      await engine.close();
      throw error;
    }
  },
  openRollout: async (options, { needs, rank }) =>
    new WorkerRolloutEngine(await openWorker("rollout", optionsFor(options, env, rank), needs, openMemory)),
  openRank: async (options, { needs, rank }, role) => await openRankWorker(role, optionsFor(options, env, rank), needs),
});

const optionsFor = (
  options: EngineOptions,
  env: Parameters<typeof workerOptionsOf>[1],
  rank: ReplicaRank | undefined,
) => withRank(workerOptionsOf(options, env), rank);

/** A worker that can not be several processes would be as many that know nothing of each other. */
function aloneProblem(role: EngineRole, described: WorkerSelf, { processes }: JobConfig): EngineProblem[] {
  const count = processes?.[role] ?? 1;
  if (count === 1 || (isEngine(described) && described.processes.includes(role))) return [];
  const key = `processes.${role}`;
  const text = `${key} = ${count}: the worker does not say that it can be several processes as ${role} (processes in its hello); set ${key} = 1`;
  return [{ keys: [key, "engine.worker.command"], text }];
}

const keyOf = { policy: "engine.kind", rollout: "engine.rollout" } as const;

function sharedMemory(): EngineFinding {
  const name = "shared memory";
  try {
    const { bavail, bsize } = statfsSync("/dev/shm");
    const megabytes = Math.floor((bavail * bsize) / 2 ** 20);
    return { state: "ok", name, detail: `${megabytes} MiB free in /dev/shm`, fix: null };
  } catch (error) {
    const fix = "mount a tmpfs at /dev/shm; until then regions are files of the temporary folder";
    return { state: "warn", name, detail: messageOf(error), fix };
  }
}

function guard(): EngineFinding {
  const name = "parent death";
  if (guarded([]).length > 0) return { state: "ok", name, detail: "setpriv ends a worker with its replica", fix: null };
  const fix = "install util-linux; until then a worker that does not read its socket may outlive its replica";
  return { state: "warn", name, detail: "no /usr/bin/setpriv", fix };
}

function python(): EngineFinding {
  const name = "python3";
  const { status, stdout } = spawnSync("python3", ["--version"], { encoding: "utf8", timeout: 10_000 });
  if (status === 0) return { state: "ok", name, detail: stdout.trim(), fix: null };
  return { state: "warn", name, detail: "not found", fix: "install python3 for workers in Python; others need none" };
}

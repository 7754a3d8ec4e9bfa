/** What a worker must do, as checks that its author runs: the protocol itself, and then everything that is relied on of engines. */
import { hasCode } from "@muster/base";
import type { ModelNeeds } from "@muster/data";
import { mustHold } from "../compliance/check.ts";
import { engineChecks, type ReadyCheck } from "../compliance/index.ts";
import type { RewardInput } from "../engine.ts";
import type { EngineOptions } from "../registry/adapter.ts";
import { workerAdapterOf } from "./adapter.ts";
import { describeWorker, helloOf } from "./describe-worker.ts";
import { engineRolesOf, type WorkerSelf } from "./description.ts";
import { type OpenWorker, openScorer, openWorker } from "./open-link.ts";
import { type WorkerOptions, workerOptionsOf, workerSchema } from "./options.ts";
import { referenceChecks } from "./reference-checks.ts";
import type { OpenSharedMemory } from "./region-memory.ts";
import { rewardChecks } from "./reward-checks.ts";
import { checksWith } from "./with-worker.ts";

/** A worker under test. */
export interface WorkerSubject {
  /** Its table; what is left out has its default. */
  readonly table: Readonly<Record<string, unknown>>;
  readonly needs: ModelNeeds;
  /** What a reward is tried with; at least one. */
  readonly trajectories: readonly RewardInput[];
  /** Environment that the worker inherits. */
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Opens the memory of its regions; without it they are files. */
  readonly sharedMemory?: OpenSharedMemory;
}

/** Most pings while a worker is at work. */
const pings = 20;

/**
 * The checks of a worker, which is asked what it is at once.
 *
 * @throws as `describeWorker`, for a worker that does not begin
 */
export function workerChecks({ table, needs, env, sharedMemory, trajectories }: WorkerSubject): {
  readonly description: WorkerSelf;
  readonly checks: readonly ReadyCheck[];
} {
  const options = workerSchema.parse(table) as EngineOptions;
  const known = workerOptionsOf(options, env);
  const description = describeWorker(known, needs);
  const roles = engineRolesOf(description);
  const engine = { adapter: { ...workerAdapterOf(env, sharedMemory), roles }, options, needs };
  return {
    description,
    checks: [
      ...protocolChecks(known, description, { needs, sharedMemory }),
      ...(roles.length > 0 ? engineChecks(engine) : []),
      ...(description.roles.includes("reward")
        ? rewardChecks({ options: known, needs, description, trajectories })
        : []),
      ...(description.roles.includes("reference") ? referenceChecks({ options: known, needs, description }) : []),
    ],
  };
}

/** The hello of the worker of a table, as it said it: what `engine.worker.description` may name. @throws as {@link workerChecks} */
export function workerHello({ table, needs, env }: Omit<WorkerSubject, "trajectories">): object {
  const options = workerOptionsOf(workerSchema.parse(table) as EngineOptions, env);
  describeWorker(options, needs);
  return helloOf(options, needs);
}

function protocolChecks(
  options: WorkerOptions,
  description: WorkerSelf,
  { needs, sharedMemory }: { readonly needs: ModelNeeds; readonly sharedMemory: OpenSharedMemory | undefined },
): readonly ReadyCheck[] {
  const [role] = engineRolesOf(description);
  const scorer = description.roles.includes("reward") ? "reward" : "reference";
  const check = checksWith<OpenWorker<WorkerSelf>>("protocol", () =>
    role ? openWorker(role, options, needs, sharedMemory) : openScorer(scorer, options, needs),
  );
  return [
    {
      says: "protocol: refuses versions of the protocol that it does not speak, with a sentence",
      run: async () => {
        const hello = helloOf(options, needs, [65_535]) as { readonly type?: unknown; readonly message?: unknown };
        mustHold(hello.type === "refusal" && typeof hello.message === "string", "protocol 65535 is not refused");
      },
    },
    check("answers a method that it does not know with a failure, and goes on", async ({ link }) => {
      for (const _ of [1, 2]) await mustFail(() => link.call("no-such-method", {}));
    }),
    check("answers each of many requests once, and pings in between", async ({ link }) => {
      const asked = Array.from({ length: pings }, async () => {
        await Promise.all([mustFail(() => link.call("no-such-method", {})), link.ping()]);
      });
      await Promise.all(asked);
    }),
    check("answers a request that is cancelled, and the next one", async ({ link }) => {
      const stop = new AbortController();
      const cancelled = link.call("no-such-method", {}, { signal: stop.signal }).catch(() => {});
      stop.abort(new Error("cancelled"));
      await cancelled;
      await mustFail(() => link.call("no-such-method", {}));
    }),
    check("ends by itself when its socket ends", async ({ link }) => {
      mustHold(await link.close(), "it is still there two seconds after its socket ended");
    }),
  ];
}

async function mustFail(call: () => Promise<unknown>): Promise<void> {
  const error = await call().then(
    () => null,
    (thrown: unknown) => thrown,
  );
  if (error !== null && !hasCode(error, "MUSTER_ERR_WORKER_CALL")) throw error;
  mustHold(error !== null, "a method that nobody knows is not refused");
}

/** From options to a worker that is what it said, with its regions in place. */
import { hasCode } from "@muster/base";
import type { ModelNeeds } from "@muster/data";
import { errors } from "../errors.ts";
import type { EngineRole } from "../registry/adapter.ts";
import { isEngine, type WorkerDescription, type WorkerSelf } from "./description.ts";
import { WorkerLink } from "./link.ts";
import type { WorkerRole } from "./messages.ts";
import type { WorkerOptions } from "./options.ts";
import type { OpenSharedMemory } from "./region-memory.ts";
import { Regions } from "./regions.ts";

/** A worker at work. */
export interface OpenWorker<D extends WorkerSelf = WorkerDescription> {
  readonly link: WorkerLink;
  readonly regions: Regions;
  readonly description: D;
}

/** Roles of workers that score what others drew. */
export type ScorerRole = Exclude<WorkerRole, EngineRole>;

const titles: Readonly<Record<WorkerRole, string>> = {
  policy: "trainer",
  rollout: "sampler",
  reward: "reward",
  reference: "reference",
};

/**
 * Starts the worker of an engine and gives it its regions.
 *
 * @param sharedMemory - Opens their memory; without it they are files.
 * @throws as {@link WorkerLink.open}; MUSTER_ERR_ENGINE_ROLE, MUSTER_ERR_ENGINE_DIFFERS, MUSTER_ERR_WORKER_MEMORY
 */
export async function openWorker(
  role: EngineRole,
  options: WorkerOptions,
  needs: ModelNeeds,
  sharedMemory?: OpenSharedMemory,
): Promise<OpenWorker> {
  const planOf = (description: WorkerSelf) => {
    if (!isEngine(description)) throw wrongRole(role);
    const { weightsBytes, optimizerBytes, gradientElements, losses = [] } = description;
    const { arenaBytes } = options;
    const training = {
      ...{ optimizer: optimizerBytes, gradient: 4 * gradientElements },
      ...(losses.includes("reference") ? { outputs: arenaBytes } : {}),
    };
    const sizes = {
      weights: weightsBytes,
      inputs: arenaBytes,
      ...(role === "policy" ? training : { outputs: arenaBytes }),
    };
    return { description, sizes };
  };
  return await opened(role, options, needs, { planOf, sharedMemory });
}

/** Starts the worker of a scorer, which is given what it scores in one region, and has another for columns of its answers. @throws as {@link openWorker} */
export async function openScorer(
  role: ScorerRole,
  options: WorkerOptions,
  needs: ModelNeeds,
): Promise<OpenWorker<WorkerSelf>> {
  const { arenaBytes } = options;
  const sizes = { inputs: arenaBytes, ...(role === "reference" ? { outputs: arenaBytes } : {}) };
  return await opened(role, options, needs, { planOf: (description) => ({ description, sizes }) });
}

interface Plan<D extends WorkerSelf> {
  readonly planOf: (description: WorkerSelf) => {
    readonly description: D;
    readonly sizes: Readonly<Record<string, number>>;
  };
  readonly sharedMemory?: OpenSharedMemory | undefined;
}

async function opened<D extends WorkerSelf>(
  role: WorkerRole,
  options: WorkerOptions,
  needs: ModelNeeds,
  { planOf, sharedMemory }: Plan<D>,
): Promise<OpenWorker<D>> {
  const { command, times, memoryMax, build } = options;
  const { vocab, maxContext, tokenizer } = needs;
  const link = await WorkerLink.open({ command, times, memoryMax, facts: { role, vocab, maxContext, tokenizer } });
  try {
    if (!link.description.roles.includes(role)) throw wrongRole(role);
    if (build !== null && build !== link.description.build)
      throw errors.EngineDiffers({ kind: "worker", what: "build", found: link.description.build, wanted: build });
    const { description, sizes } = planOf(link.description);
    const regions = await attached(link, sizes, times.startMs, sharedMemory);
    return { link, regions, description };
  } catch (error) {
    await link.close();
    throw error;
  }
}

/** Has a worker map its regions. One that may not open memory of this process, as in a container of its own, is given files. */
async function attached(
  link: WorkerLink,
  sizes: Readonly<Record<string, number>>,
  timeoutMs: number,
  sharedMemory?: OpenSharedMemory,
): Promise<Regions> {
  const regions = await Regions.open(sizes, sharedMemory);
  try {
    await link.call("attach", { regions: regions.places() }, { timeoutMs });
    regions.hide();
    return regions;
  } catch (error) {
    await regions.close();
    if (!sharedMemory || !hasCode(error, "MUSTER_ERR_WORKER_CALL")) throw error;
  }
  return await attached(link, sizes, timeoutMs);
}

function wrongRole(role: WorkerRole): Error {
  return errors.EngineRole({ kind: "worker", role: titles[role] });
}

/** From options to a worker that is what it said, with its regions in place. */
import type { ModelNeeds } from "@muster/data";
import { errors } from "../errors.ts";
import type { EngineRole } from "../registry/adapter.ts";
import type { WorkerDescription } from "./description.ts";
import { WorkerLink } from "./link.ts";
import type { WorkerOptions } from "./options.ts";
import { Regions } from "./regions.ts";

/** A worker at work. */
export interface OpenWorker {
  readonly link: WorkerLink;
  readonly regions: Regions;
  readonly description: WorkerDescription;
}

/**
 * Starts the worker of a role and gives it its regions.
 *
 * @throws as {@link WorkerLink.open}; MUSTER_ERR_ENGINE_ROLE, MUSTER_ERR_ENGINE_DIFFERS, MUSTER_ERR_WORKER_MEMORY
 */
export async function openWorker(role: EngineRole, options: WorkerOptions, needs: ModelNeeds): Promise<OpenWorker> {
  const { command, times, memoryMax, arenaBytes, build } = options;
  const { vocab, maxContext, tokenizer } = needs;
  const link = await WorkerLink.open({ command, times, memoryMax, facts: { role, vocab, maxContext, tokenizer } });
  let regions: Regions | null = null;
  try {
    const { description } = link;
    if (!description.roles.includes(role))
      throw errors.EngineRole({ kind: "worker", role: role === "policy" ? "trainer" : "sampler" });
    if (build !== null && build !== description.build)
      throw errors.EngineDiffers({ kind: "worker", what: "build", found: description.build, wanted: build });
    const { weightsBytes, optimizerBytes, gradientElements } = description;
    const training = { optimizer: optimizerBytes, gradient: 4 * gradientElements };
    regions = await Regions.open({
      weights: weightsBytes,
      inputs: arenaBytes,
      ...(role === "policy" ? training : { outputs: arenaBytes }),
    });
    await link.call("attach", { regions: regions.places() }, { timeoutMs: times.startMs });
    regions.hide();
    return { link, regions, description };
  } catch (error) {
    await link.close();
    await regions?.close();
    throw error;
  }
}

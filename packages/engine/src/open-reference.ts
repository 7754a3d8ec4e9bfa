/** The reference policy of a job, where a worker is it. */
import { needsOfJob } from "@muster/data";
import type { JobConfig } from "@muster/protocol";
import type { PolicyEngine } from "./engine.ts";

/**
 * A trainer with the reference policy of its job: as it is, unless the job names a worker.
 *
 * @throws as a worker that does not begin, after the engine was closed
 */
export async function openReferenceOf(
  config: JobConfig,
  engine: PolicyEngine,
  env: Readonly<Record<string, string | undefined>>,
): Promise<PolicyEngine> {
  const reference = config.scorers?.reference;
  if (!reference) return engine;
  try {
    const { withReference } = await import("./worker/reference-policy.ts");
    return await withReference(engine, reference, needsOfJob(config), env);
  } catch (error) {
    await engine.close();
    throw error;
  }
}

/** Whether the program of a scorer can be that of a job: asked before anything starts. */
import { messageOf } from "@muster/base";
import type { ModelNeeds } from "@muster/data";
import type { ScorerConfig } from "@muster/protocol";
import { describeWorker } from "./describe-worker.ts";
import type { ScorerRole } from "./open-link.ts";
import { scorerOptionsOf } from "./options.ts";

/** Why a program can not be the worker of a role; `null` when it can. It is started, and asked what it is. */
export function scorerFault(
  role: ScorerRole,
  config: ScorerConfig,
  needs: ModelNeeds,
  env: Readonly<Record<string, string | undefined>>,
): string | null {
  try {
    const { roles, build, deterministic } = describeWorker(scorerOptionsOf(config, env), needs);
    if (!roles.includes(role)) return `the worker says that it is ${roles.join(" and ")}, and not ${role}`;
    // Each trainer asks its own reference for its part of a gradient, and the votes on the sum do not show one that differs.
    if (role === "reference" && !deterministic)
      return "the worker says that equal sequences need not have equal log-probabilities, so weights would depend on who trains";
    if (role === "reference" && config.build === null)
      return `reference.worker.build is not set, so that trainers could ask references that differ; set it to ${JSON.stringify(build)}`;
    if (config.build === null || config.build === build) return null;
    return `the worker has the build ${build}, and ${role}.worker.build wants ${config.build}`;
  } catch (error) {
    return `the worker can not begin: ${messageOf(error)}`;
  }
}

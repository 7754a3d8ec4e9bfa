/** Whether an engine that was opened is what its adapter said, and what the job's trainers publish. */
import type { EngineInfo, PolicyInfo } from "../engine.ts";
import { errors } from "../errors.ts";
import type { EngineDescription } from "./adapter.ts";
import { formatDifference } from "./weight-format.ts";

/**
 * Checks an engine before it does anything.
 *
 * @throws MUSTER_ERR_ENGINE_DIFFERS naming the first thing that differs
 */
export function checkOpened(info: EngineInfo | PolicyInfo, described: EngineDescription): void {
  const differs = (what: string, found: unknown, wanted: unknown): Error =>
    errors.EngineDiffers({ kind: info.kind, what, found: String(found), wanted: String(wanted) });
  for (const what of ["modelId", "vocab", "maxContext", "logprobs"] as const) {
    if (info[what] !== described[what]) throw differs(what, info[what], described[what]);
  }
  if (!("tensors" in info)) return;
  const difference = formatDifference(described, { ...described, tensors: info.tensors });
  if (difference) throw differs(difference.what, difference.sampler, difference.trainer);
}

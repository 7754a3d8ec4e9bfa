/** What a checkpoint actor says to be durable is what a trainer restores one day: it is believed only where it can be one of the job's own. */
import { type Body, parseCheckpointName } from "@muster/protocol";
import type { ControllerState } from "../state.ts";

/** Why a checkpoint can not be one of the job's; `null` when it may be. Pure. */
export function savedFlawOf(
  { plan, weights, step: run }: ControllerState,
  { path, step, version, lineage }: Body<"checkpoint.saved">,
): string | null {
  const { checkpointDirectory: root } = plan;
  const isCommitted = step < run.step && version <= (weights?.version ?? version);
  if (lineage === weights?.lineage && !isCommitted) return `step ${step}, version ${version} is not committed`;
  if (root === undefined) return null;
  const last = path.slice(path.lastIndexOf("/") + 1);
  const name = parseCheckpointName(last);
  if (!name || path !== `${root}/${last}`) return `path = "${path.slice(0, 256)}" is no checkpoint in ${root}`;
  const isIt = name.step === step && name.version === version;
  return isIt ? null : `path = "${last}" is not of step ${step}, version ${version}`;
}

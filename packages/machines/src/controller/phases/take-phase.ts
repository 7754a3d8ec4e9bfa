/** What an operator says of phases: what the job does from now on, and groups that another run sampled. Every refusal names the field, the value and the way out. */
import { digestsOf, firstSeqOf, type GroupReceipt, type Section, sectionsOfPart } from "@muster/protocol";
import type { ReportOf } from "../events.ts";
import type { CommandOutcome } from "../fleet/command-outcome.ts";
import { isOpen, settleReceipt } from "../groups/apply-groups.ts";
import { noteReceipts } from "../groups/given-up.ts";
import { refusalOf } from "../groups/sound-receipts.ts";
import { stalenessOf } from "../settings.ts";
import { stepsOf } from "../sizes.ts";
import type { ControllerState } from "../state.ts";

/** Sets what the job does. Pure. */
export function takePhase(state: ControllerState, { phase, partial }: ReportOf<"job.phase">["body"]): CommandOutcome {
  if (state.ending) return { state, refusal: `the job is ending: ${state.ending.reason}` };
  if (partial && phase !== "update")
    return { state, refusal: `partial goes with phase = update, and phase = ${phase}; leave it out` };
  const { jobPhase: _, ...rest } = state;
  const next = phase === "both" ? rest : { ...rest, jobPhase: { phase, ...(partial ? { partial } : {}) } };
  return taken(next, `the job ${says[phase]} from now on`);
}

const says = { both: "samples and trains", rollout: "only samples", update: "only trains" } as const;

/**
 * Takes groups that lie in the groups stream already. What could not be true, or was sampled by other weights than those that the job has, is
 * refused as a whole; of the rest the first result of a group wins, here and before, and what is trained stays trained. Pure.
 */
export function takeImport(
  state: ControllerState,
  { weights, receipts }: ReportOf<"groups.import">["body"],
): CommandOutcome {
  const refusal = refusalOfImport(state, weights, receipts);
  if (refusal !== null) return { state, refusal };
  const taking = new Map<string, GroupReceipt>();
  for (const receipt of receipts) {
    const key = `${receipt.step}.${receipt.index}`;
    if (isOpen(state, receipt) && !taking.has(key)) taking.set(key, receipt);
  }
  const open = [...taking.values()];
  const next = open.reduce((now, receipt) => settleReceipt(now, receipt), noteReceipts(state, open, []));
  const known = receipts.length - open.length;
  const more = known > 0 ? `; ${known} were settled already` : "";
  return taken(next, `${open.length} of ${receipts.length} groups are taken${more}`);
}

function refusalOfImport(
  state: ControllerState,
  { version, sections }: { readonly version: number; readonly sections: readonly Section[] },
  receipts: readonly GroupReceipt[],
): string | null {
  const { weights, ending, step, groups } = state;
  if (ending) return `the job is ending: ${ending.reason}`;
  if (!weights) return "the job has no weights yet; import again when it has";
  if (version > weights.version)
    return `weights.version = ${version} is later than version ${weights.version} of the job; import again when it is there`;
  if (version === weights.version && !isSame(sections, weights.sections))
    return `the groups were sampled by other weights than version ${version} of this job: ${nameOf(sections)}, and here ${nameOf(weights.sections)}; import them into a job that begins with those`;
  for (const receipt of receipts) {
    const name = `group ${receipt.step}.${receipt.index}`;
    const flaw = refusalOf(state, receipt);
    if (flaw !== null) return `${name}: ${flaw}`;
    if (receipt.step > stepsOf(state)) return `${name}: the job has ${stepsOf(state)} steps`;
    if (receipt.step >= step.step && !groups[receipt.step])
      return `${name} is of a step that is not sampled yet; the job is at step ${step.step}`;
    if (receipt.version > version) return `${name} has version ${receipt.version}, and weights.version = ${version}`;
    if (
      weights.version + receipt.step - step.step - receipt.version > stalenessOf(state, receipt.step) &&
      isOpen(state, receipt)
    )
      return `${name} was sampled by version ${receipt.version}; the job would use it at version ${weights.version + receipt.step - step.step}, and allows ${stalenessOf(state, receipt.step)} versions between them (job.staleness_max)`;
    if (firstSeqOf(receipt) < state.purgedSeq && isOpen(state, receipt))
      return `${name}: message ${firstSeqOf(receipt)} of the groups stream is gone; store it again`;
  }
  return null;
}

/** What samplers need decides what they draw; training state does not. */
function isSame(a: readonly Section[], b: readonly Section[]): boolean {
  const text = (sections: readonly Section[]): string => digestsOf(sectionsOfPart(sections, "serving"));
  return text(a) === text(b) && text(a) !== "";
}

function nameOf(sections: readonly Section[]): string {
  return sectionsOfPart(sections, "serving")[0]?.digest ?? "weights that the file does not name";
}

function taken(state: ControllerState, detail: string): CommandOutcome {
  return { state, detail, effects: [], answer: { outcome: "done", detail } };
}

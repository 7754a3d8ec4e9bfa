/** The keys that say what is done about failures: a section of general ones, and one for each kind. */
import { actionsByKind, type FailureKind, failureDefaults, failureKinds, failureRuleOf } from "@muster/protocol";
import type { Field } from "./field.ts";
import { section } from "./field-section.ts";

const subjects: Readonly<Record<FailureKind, string>> = {
  transport: "a reward or sample that cannot reach somebody",
  timeout: "a reward or sample that does not end in time",
  engine_crash: "a group whose holder dies, or whose engine fails, over it",
  oom: "a group over which an engine runs out of memory",
  user_error: "a reward or sample that throws or says nonsense",
  non_finite:
    "steps in a row with a loss or gradient that is not finite; quarantine also restores the newest checkpoint",
  checkpoint_io: "a checkpoint that cannot be written",
};

const { failFast, abortShareMax, abortWindow, sameErrorMax, atCeiling, cordonOnSigns } = failureDefaults;

/** What is done about failures. */
export const failureFields: readonly Field[] = [
  section("failure", {
    fail_fast: ["boolean", failFast, "Ends the job at the first failure that one of these rules decides."],
    abort_share_max: [
      "number",
      abortShareMax,
      "Largest share of given-up trajectories in the window; 1 for no ceiling.",
    ],
    abort_window: ["integer", abortWindow, "Newest trajectories that the share is taken of."],
    same_error_max: ["integer", sameErrorMax, "Given-up trajectories in a row with one root cause; 0 for any number."],
    at_ceiling: ["text", atCeiling, "What a ceiling leads to: abort ends the job with its root causes, alarm says so."],
    cordon_on_signs: [
      "boolean",
      cordonOnSigns,
      "Whether a node whose host shows signs of a failure to come gets no new work, as long as another node does.",
    ],
  }),
  ...failureKinds.map((kind) => {
    const { action, attempts, backoffMs } = failureRuleOf(failureDefaults, kind);
    return section(`failure.${kind}`, {
      action: ["text", action, `What ends ${subjects[kind]}: ${actionsByKind[kind].join(", ")}.`],
      attempts: ["integer", attempts, "Failures until then; those before are tried again."],
      backoff: ["duration", `${backoffMs}ms`, "Pause before the second attempt; doubled for each one after."],
    });
  }),
].flat();

/** What is done about a failure, by its kind (semantics 6.13). One pure decision for everybody who has to make it. */
import { z } from "zod";

/** Kinds of failure that have a rule of their own. */
export const failureKinds = [
  "transport",
  "timeout",
  "engine_crash",
  "oom",
  "user_error",
  "non_finite",
  "checkpoint_io",
] as const;

/** A kind of failure. */
export type FailureKind = (typeof failureKinds)[number];

/** What may be done once the attempts are used up; `retry` goes on for ever. */
export const failureActions = ["retry", "isolate", "restart", "quarantine", "abort"] as const;

/** What is done about a failure. */
export type FailureAction = (typeof failureActions)[number];

/**
 * Which final actions make sense for which kind. A trajectory can only be isolated, a replica restarted, a group or a batch
 * quarantined, a checkpoint tried again; the job can be ended for any of them.
 */
export const actionsByKind: Readonly<Record<FailureKind, readonly FailureAction[]>> = {
  transport: ["isolate", "abort"],
  timeout: ["isolate", "abort"],
  user_error: ["isolate", "abort"],
  engine_crash: ["quarantine", "restart", "abort"],
  oom: ["quarantine", "restart", "abort"],
  non_finite: ["quarantine", "abort"],
  checkpoint_io: ["retry", "abort"],
};

const ruleSchema = z.strictObject({
  action: z.enum(failureActions),
  /** Failures in a row until the action; the ones before are tried again. */
  attempts: z.number().int().min(1).max(1024),
  /** Pause before the second attempt; doubled for each one after that. */
  backoffMs: z.number().nonnegative(),
});

/** The rule of one kind of failure. */
export type FailureRule = z.infer<typeof ruleSchema>;

/** Schema of the part of a job's configuration that says what is done about failures. */
export const failurePolicySchema = z.strictObject({
  /** Any failure that a rule decides ends the job at once. */
  failFast: z.boolean(),
  /** A node whose host shows signs of a failure to come gets no new work. */
  cordonOnSigns: z.boolean(),
  /** Largest share of aborted or quarantined trajectories among the last `abortWindow` ones; 1 for no ceiling. */
  abortShareMax: z.number().positive().max(1),
  abortWindow: z.number().int().min(1).max(1_000_000),
  /** Aborted trajectories in a row with one root cause; 0 for any number. */
  sameErrorMax: z.number().int().min(0).max(1_000_000),
  atCeiling: z.enum(["abort", "alarm"]),
  transport: ruleSchema,
  timeout: ruleSchema,
  engineCrash: ruleSchema,
  oom: ruleSchema,
  userError: ruleSchema,
  nonFinite: ruleSchema,
  checkpointIo: ruleSchema,
});

/** What is done about failures in a job. */
export type FailurePolicy = z.infer<typeof failurePolicySchema>;

/** What is done unless a job says otherwise. */
export const failureDefaults: FailurePolicy = {
  failFast: false,
  cordonOnSigns: true,
  abortShareMax: 0.05,
  abortWindow: 1_024,
  sameErrorMax: 128,
  atCeiling: "abort",
  transport: { action: "isolate", attempts: 3, backoffMs: 200 },
  timeout: { action: "isolate", attempts: 1, backoffMs: 0 },
  engineCrash: { action: "quarantine", attempts: 3, backoffMs: 0 },
  oom: { action: "quarantine", attempts: 2, backoffMs: 0 },
  userError: { action: "isolate", attempts: 1, backoffMs: 0 },
  nonFinite: { action: "quarantine", attempts: 3, backoffMs: 0 },
  checkpointIo: { action: "retry", attempts: 5, backoffMs: 1_000 },
};

const ruleNames = {
  transport: "transport",
  timeout: "timeout",
  engine_crash: "engineCrash",
  oom: "oom",
  user_error: "userError",
  non_finite: "nonFinite",
  checkpoint_io: "checkpointIo",
} as const satisfies Record<FailureKind, keyof FailurePolicy>;

/** Longest pause between attempts. */
export const backoffMaxMs = 60_000;

/** A decision about one failure. */
export interface FailureDecision {
  readonly action: FailureAction;
  /** Pause before the next attempt; 0 unless the action is `retry`. */
  readonly afterMs: number;
  /** For logs: which rule decided, and why. */
  readonly reason: string;
}

/** The rule of a kind. Pure. */
export function failureRuleOf(policy: FailurePolicy, kind: FailureKind): FailureRule {
  return policy[ruleNames[kind]];
}

/**
 * Decides what is done about a failure. Pure.
 *
 * @param failures - Failures of this kind so far on the same piece of work, this one included; at least 1.
 */
export function decideFailure(policy: FailurePolicy, kind: FailureKind, failures: number): FailureDecision {
  const { action, attempts, backoffMs } = failureRuleOf(policy, kind);
  if (policy.failFast) return { action: "abort", afterMs: 0, reason: `${kind}: the job fails fast` };
  const reason = `${kind}: failure ${failures} of ${attempts}`;
  if (failures < attempts || action === "retry") {
    const afterMs = Math.min(backoffMaxMs, backoffMs * 2 ** Math.min(failures - 1, 30));
    return { action: "retry", afterMs, reason };
  }
  return { action, afterMs: 0, reason };
}

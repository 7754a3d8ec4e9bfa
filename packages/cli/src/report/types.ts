/** What a run leaves behind, as plain JSON: the summary that is printed, and the record that the report is made of. */

/** Counts of trajectories; `admitted = trained + aborted + quarantined + pending`. */
export interface LedgerCounts {
  readonly admitted: number;
  readonly trained: number;
  readonly aborted: number;
  readonly quarantined: number;
  readonly pending: number;
}

/** Something that went wrong, and how long it took to notice and to mend. Times are milliseconds; `at_ms` counts from the start. */
export interface Incident {
  /** What happened, e.g. `policy.died`. */
  readonly kind: string;
  /** When it happened, where that is known (a fault of `muster chaos`), else when it was first noticed. */
  readonly at_ms: number;
  /** Whom it happened to. */
  readonly subject: string;
  readonly detail: string;
  /** From when it happened, where that is known, else for how long its subject had been silent, until it was noticed. */
  readonly detect_ms?: number;
  readonly recover_ms?: number;
}

/** The result of a run. The keys are those of the JSON output, so they stay as they are. */
export interface RunSummary {
  readonly job: string;
  readonly seed: number;
  /** Steps committed. */
  readonly steps: number;
  /** First step that rewards, speeds and incidents are of, where older events are gone; `null` where they are of all steps. */
  readonly since_step: number | null;
  /** Mean reward of the first and of the last ten steps; `null` without a step. */
  readonly reward_first: number | null;
  readonly reward_last: number | null;
  /** The same of the loss; `null` also in what an earlier version of Muster left. */
  readonly loss_first: number | null;
  readonly loss_last: number | null;
  /** Loss on held-out rows, where it was measured first and last; absent in what an earlier version of Muster left. */
  readonly held_out_loss_first?: number | null;
  readonly held_out_loss_last?: number | null;
  /** Share of held-out prompts answered exactly, 0 to 1, at the first and at the last evaluation; `null` without one. */
  readonly eval_first: number | null;
  readonly eval_last: number | null;
  /** The durable checkpoint that is best at held-out prompts, with its share of exact answers, 0 to 1; `null` without one. */
  readonly best_checkpoint: { readonly step: number; readonly path: string; readonly accuracy: number } | null;
  readonly weight_version: number;
  readonly weights_hash: string;
  readonly ledger: LedgerCounts;
  /** Trajectories that were admitted and are in no column of the ledger; 0 in a correct run. */
  readonly lost: number;
  /** Groups that were trained more than once; 0 in a correct run. */
  readonly doubled: number;
  readonly incidents: readonly Incident[];
  /** Share of the time since the first commit that was productive, 0 to 1; `null` before the second commit. */
  readonly ettr: number | null;
  /** Tokens that were made for nothing, because somebody died. */
  readonly tokens_wasted: number;
  /** From the first event of the job to the last one, without the time in which it was interrupted. */
  readonly wall_s: number;
  readonly tokens_per_s: number;
}

/** One committed step: a line of `metrics.jsonl`. Figures of a later version of Muster are `null` in what an earlier one left. */
export interface StepRecord {
  readonly step: number;
  /** The line of weights in which it stands: a job that went back begins another one. */
  readonly lineage: number;
  readonly version: number;
  /** Mean reward of its trajectories, the standard deviation of all of them, and their range; `null` where nobody judges. */
  readonly reward: number | null;
  readonly reward_spread: number | null;
  readonly reward_least: number | null;
  readonly reward_most: number | null;
  /** Parts of the rewards by name, of the trajectories that have them; `null` where no reward names any. */
  readonly components: Readonly<Record<string, ComponentRecord>> | null;
  /** Share of groups whose members have no advantage over each other, 0 to 1. */
  readonly even_groups: number | null;
  /** Objective of the algorithm, negated, per response token: of GRPO the clipped surrogate. */
  readonly loss: number;
  /** Loss on held-out rows under the weights that the step made, nats per answer token; `null` where it is not measured. */
  readonly held_out_loss?: number | null;
  /** KL of the policy that sampled and the one that trains, per response token: the estimator r − 1 − log r; `null` where nothing is sampled. */
  readonly approx_kl: number | null;
  /** Distance of trained and sampled log-probabilities before the first update of the step, nats per response token: mean and maximum. */
  readonly logprob_gap: number | null;
  readonly logprob_gap_max: number | null;
  /** KL to the reference policy, nats per response token; `null` where the job has none. */
  readonly kl_reference: number | null;
  /** Share of tokens whose ratio was clipped, 0 to 1. */
  readonly clip_fraction: number;
  /** Nats per response token. */
  readonly entropy: number;
  readonly grad_norm: number;
  readonly lr: number | null;
  /** Versions between sampling and training. */
  readonly staleness: number;
  /** Response tokens of a trajectory. */
  readonly length_mean: number | null;
  readonly length_max: number | null;
  /** Share of responses that ended because there was no room for more, 0 to 1. */
  readonly truncated: number | null;
  readonly tokens: number;
  /** Tokens per second of each role while it works. */
  readonly train_tokens_per_s: number | null;
  readonly sample_tokens_per_s: number | null;
  /** Tokens per second by the clock of the job, since the commit before: what the headline is the mean of. */
  readonly tokens_per_s: number;
  readonly step_ms: number;
  readonly compute_ms: number;
  readonly reduce_ms: number;
  /** When it was committed, from the start of the job, without the time in which it was interrupted. */
  readonly at_ms: number;
  /** Version that each trainer and sampler held when it was committed; `null` of steps long past, and where nobody said it. */
  readonly held: Readonly<Record<string, number | null>> | null;
}

/** One part of the rewards of a step: mean, standard deviation, range, and how many trajectories have it. */
export interface ComponentRecord {
  readonly count: number;
  readonly mean: number;
  readonly spread: number;
  readonly least: number;
  readonly most: number;
}

/** One evaluation of the held-out prompts. */
export interface EvaluationRecord {
  readonly version: number;
  /** Share answered exactly, 0 to 1. */
  readonly accuracy: number;
}

/** One life of one replica. Times count from the start of the run. */
export interface MemberRecord {
  readonly id: string;
  readonly role: string;
  readonly incarnation: string;
  readonly joined_ms: number;
  /** `null` while it was there at the end. */
  readonly left_ms: number | null;
  readonly how: "left" | "died" | null;
}

/** Why trajectories were aborted: equal are those of one class and top frame of the stack. */
export interface CauseRecord {
  readonly name: string;
  /** Of the first one. */
  readonly message: string;
  readonly frame: string | null;
  /** Of the first one. */
  readonly stack: string | null;
  /** `<step>.<index>/<sample>` of the first one. */
  readonly sample: string | null;
  readonly count: number;
}

/** One response that was trained: a line of `samples.jsonl`. Texts are clipped, and otherwise as they were. */
export interface SampleRecord {
  readonly step: number;
  /** The line of weights in which it was trained. */
  readonly lineage: number;
  /** `<step>.<index>` of its group, and its place in there. */
  readonly group: string;
  readonly sample: number;
  /** Oldest version of the weights that drew it. */
  readonly version: number;
  /** Who drew it. */
  readonly replica: string;
  readonly prompt: string;
  /** The right answer, where the task says one. */
  readonly answer: string | null;
  readonly completion: string;
  /** Response tokens. */
  readonly tokens: number;
  readonly status: "completed" | "truncated" | "aborted";
  /** `null` of an aborted one. */
  readonly reward: number | null;
  /** What the reward is made of, by name, and what it says besides; `null` where it says nothing. */
  readonly components: Readonly<Record<string, number>> | null;
  readonly metadata: Readonly<Record<string, unknown>> | null;
  /** Why it was aborted. */
  readonly error: string | null;
}

/** How a run stands. */
export interface RunStatus {
  readonly state: "running" | "done" | "stopped" | "failed" | "interrupted" | "unknown";
  /** Why it ended; empty while it runs. */
  readonly reason: string;
  /** Steps that the job is to commit; `null` where nobody said it. */
  readonly steps: number | null;
  /** When the record was made, ISO 8601. */
  readonly written_at: string;
}

/** Everything that the report of a run shows. */
export interface RunRecord {
  readonly status: RunStatus;
  readonly summary: RunSummary;
  readonly steps: readonly StepRecord[];
  readonly evals: readonly EvaluationRecord[];
  readonly members: readonly MemberRecord[];
  readonly causes: readonly CauseRecord[];
  /** Responses of the first step that has any, and of the newest ones. */
  readonly samples: readonly SampleRecord[];
  /** The configuration as text, e.g. TOML; without secrets. */
  readonly config_text: string;
}

/** A run as it might have been: a learning curve, three deaths, one late joiner. A function of its seed. */
import { randomOf } from "@muster/base";
import type { Incident, MemberRecord, RunRecord, SampleRecord, StepRecord } from "../../src/report/index.ts";

const stepCount = 250;

const incidents: readonly Incident[] = [
  {
    kind: "member.died",
    at_ms: 9_200,
    subject: "rollout-2",
    detail: "heartbeat silent for 2.1 s, socket closed",
    detect_ms: 210,
    recover_ms: 640,
  },
  {
    kind: "member.died",
    at_ms: 17_850,
    subject: "policy-1",
    detail: "data-plane socket closed during reduce of step 92",
    detect_ms: 34,
    recover_ms: 410,
  },
  {
    kind: "term.changed",
    at_ms: 26_100,
    subject: "controller",
    detail: "lease lapsed; the standby replayed 412 records",
    detect_ms: 1_480,
    recover_ms: 2_050,
  },
];

const members: readonly MemberRecord[] = [
  { id: "policy-1", role: "policy", incarnation: "a1", joined_ms: 300, left_ms: 17_850, how: "died" },
  { id: "policy-1", role: "policy", incarnation: "a2", joined_ms: 19_400, left_ms: null, how: null },
  { id: "policy-2", role: "policy", incarnation: "b1", joined_ms: 320, left_ms: null, how: null },
  { id: "rollout-10", role: "rollout", incarnation: "f1", joined_ms: 21_000, left_ms: 38_000, how: "left" },
  { id: "rollout-2", role: "rollout", incarnation: "d1", joined_ms: 410, left_ms: 9_200, how: "died" },
  { id: "rollout-2", role: "rollout", incarnation: "d2", joined_ms: 10_600, left_ms: null, how: null },
  { id: "rollout-1", role: "rollout", incarnation: "c1", joined_ms: 400, left_ms: null, how: null },
  { id: "checkpoint-1", role: "checkpoint", incarnation: "e1", joined_ms: 350, left_ms: null, how: null },
];

export function steps(): readonly StepRecord[] {
  const random = randomOf(9);
  const more = randomOf(10);
  let atMs = 1_200;
  return Array.from({ length: stepCount }, (_, index): StepRecord => {
    const noise = random.next() + random.next() - 1;
    const isSlow = incidents.some((incident) => Math.abs(incident.at_ms - atMs) < 120);
    const computeMs = 88 + 12 * random.next();
    const reduceMs = 9 + 5 * random.next();
    const stepMs = computeMs + reduceMs + 60 + 25 * random.next() + (isSlow ? 500 : 0);
    atMs += stepMs;
    return {
      step: index + 1,
      lineage: 0,
      version: index + 1,
      reward: 0.42 + 0.53 * (1 - Math.exp(-index / 70)) + 0.06 * noise,
      tokens: 10_200 + Math.round(900 * random.next()),
      step_ms: stepMs,
      compute_ms: computeMs,
      reduce_ms: reduceMs,
      staleness: 0,
      loss: -0.02 * Math.exp(-index / 80) + 0.004 * noise,
      approx_kl: 0.003 * Math.exp(-index / 120),
      logprob_gap: 0.0005 + 0.0001 * Math.sin(index / 9),
      logprob_gap_max: 0.02 + 0.004 * Math.sin(index / 7),
      kl_reference: null,
      entropy: 0.62 * Math.exp(-index / 90) + 0.08 + 0.02 * noise,
      clip_fraction: 0.02 * random.next() * Math.exp(-index / 200),
      grad_norm: 0.5 + 0.8 * Math.exp(-index / 60) + 0.15 * random.next(),
      lr: index < 5 ? (index + 1) * 2e-4 : 1e-3 * (1 - (0.9 * index) / stepCount),
      reward_spread: 0.3 * Math.exp(-index / 150) + 0.02 * more.next(),
      reward_least: 0,
      reward_most: 1,
      components: null,
      even_groups: 0.1 + 0.6 * (1 - Math.exp(-index / 70)),
      length_mean: 10 + 0.3 * noise,
      length_max: 11 + Math.round(2 * more.next()),
      truncated: 0.05 * Math.exp(-index / 40),
      train_tokens_per_s: 100_000 + 4_000 * more.next(),
      sample_tokens_per_s: 80_000 + 9_000 * more.next(),
      tokens_per_s: (10_600 / stepMs) * 1000,
      held: { "policy-1": index, "policy-2": index, "rollout-1": index, "rollout-2": Math.max(0, index - 1) },
      at_ms: atMs,
    };
  });
}

function samples(): readonly SampleRecord[] {
  return [1, 248, 249, 250].flatMap((step) =>
    [0, 1].map((sample): SampleRecord => {
      const isAborted = step === 249 && sample === 1;
      return {
        ...{ step, lineage: 0, group: `${step}.0`, sample, version: step - 1, replica: "rollout-1" },
        prompt: `What is the ${step}th day of the year 2024, as YYYY-MM-DD?`,
        answer: "2024-09-06",
        completion: isAborted ? "" : `2024-09-0${6 - sample}`,
        tokens: isAborted ? 0 : 11,
        status: isAborted ? "aborted" : "completed",
        reward: isAborted ? null : 1 - sample,
        ...{ components: null, metadata: null },
        error: isAborted ? "TypeError: can not read the answer" : null,
      };
    }),
  );
}

export function runRecord(changes: Partial<RunRecord> = {}): RunRecord {
  const all = steps();
  const wall = (all.at(-1)?.at_ms ?? 0) / 1000 + 0.8;
  return {
    status: {
      state: "done",
      reason: "all steps are committed",
      steps: stepCount,
      written_at: "2026-01-01T00:00:41.000Z",
    },
    summary: {
      job: "dates",
      seed: 7,
      steps: stepCount,
      since_step: null,
      reward_first: 0.431,
      reward_last: 0.938,
      loss_first: 0.012,
      loss_last: -0.004,
      eval_first: 0.541,
      eval_last: 0.9512,
      best_checkpoint: { step: 200, path: ".muster/checkpoints/dates/00000200-v200", accuracy: 0.9531 },
      weight_version: stepCount,
      weights_hash: "xxh3b:5f0c7a1e93d24b68",
      ledger: { admitted: 256_000, trained: 255_981, aborted: 11, quarantined: 8, pending: 0 },
      lost: 0,
      doubled: 0,
      incidents,
      ettr: 0.962,
      tokens_wasted: 12_400,
      wall_s: wall,
      tokens_per_s: 61_400,
    },
    steps: all,
    evals: [0, 50, 100, 150, 200, 250].map((version) => ({
      version,
      accuracy: 0.54 + 0.42 * (1 - Math.exp(-version / 70)),
    })),
    members,
    causes: [],
    samples: samples(),
    config_text:
      '[job]\nname = "dates"\nseed = 7\nsteps = 250\nmode = "sync"\n\n[replicas]\npolicy = 2\nrollout = 2\ncheckpoint = 1\n\n[batch]\ngroups_per_step = 128\ngroup_size = 8\nminibatches = 2\n',
    ...changes,
  };
}

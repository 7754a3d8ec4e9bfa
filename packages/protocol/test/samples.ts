/** One message of every kind, as the golden bytes were written from. The type asks for a sample of each new kind. */
import type { AnyMessage, Body, Kind, Message } from "../src/index.ts";
import { messageKinds } from "../src/internal.ts";

const sections = [
  { name: "weights" as const, bytes: 4096, digest: "xxh64b:0011223344556677" },
  { name: "optimizer" as const, bytes: 8192, digest: "xxh64b:8899aabbccddeeff" },
];
const version = { lineage: 1, version: 12 };
const attempt = { step: 13, attempt: 2, epoch: 5 };
const holders = [{ id: "policy-0", addresses: ["unix:/run/policy-0.sock", "tcp:10.0.0.7:7001"] }];
const ledger = { admitted: 512, trained: 384, aborted: 4, quarantined: 8, pending: 116 };
const { pending: _, ...closedLedger } = ledger;
const member = { id: "rollout-1", role: "rollout" as const, incarnation: "i-7" };
const train = { purpose: "train" as const, step: 13, index: 4, attempt: 0 };
const evaluate = { purpose: "eval" as const, chunk: 1, from: 64, count: 36 };
const cause = {
  name: "RangeError",
  message: "the reason",
  count: 1,
  failure: "user_error" as const,
  frame: "judge (r.mjs:3:9)",
  stack: "RangeError\n    at judge (r.mjs:3:9)",
  sample: "13.4/1",
};
const text = "the reason, in words – ünïcode";

const drawn = {
  ...{ step: 13, index: 4, attempt: 0, streamSeq: 88, lineage: 1, version: 12 },
  prompt: text,
  answer: "4",
  responses: [
    { sample: 0, status: "completed" as const, tokens: 2, reward: 0.5, text },
    { sample: 1, status: "aborted" as const, tokens: 0, reward: null, text: "", error: "RangeError: no" },
  ],
};

/** A body of every kind. */
const samples: { readonly [K in Kind]: Body<K> } = {
  "replica.register": {
    role: "policy",
    host: "host-a",
    pid: 4711,
    engineBuild: "wasm-1",
    node: "node-1",
    again: true,
    devices: ["0", "GPU-8932f937"],
  },
  "replica.registered": { dataKey: Uint8Array.from({ length: 32 }, (_, i) => i * 7), config: '{"job":"demo"}' },
  "replica.refused": { reason: text },
  "replica.fenced": { reason: text },
  "replica.draining": { reason: text },
  "replica.stop": { reason: text },
  "replica.left": { reason: text },
  "replica.drain": { id: "policy-0" },
  "process.exited": { id: "policy-0", host: "host-a", pid: 4711, code: null, signal: "SIGKILL" },
  "node.ready": { capacity: { policy: 2, rollout: 4, checkpoint: null }, capabilities: ["ranks"] },
  "node.assign": { revision: 7, replicas: [{ id: "rollout-1", role: "rollout", life: 3, devices: ["1"] }] },
  "node.assigned": { revision: 7 },
  "node.signal": { commandId: "c-7", id: "rollout-1", signal: "SIGSTOP" },
  "node.signalled": { commandId: "c-7", id: "rollout-1", pid: 4711, detail: text },
  "node.signs": { signs: [{ kind: "gpu", detail: text }] },
  "process.started": { id: "rollout-1", host: "host-a", pid: 4711, life: 3 },
  "process.retired": { id: "rollout-1", life: 9, deaths: 6, reason: text },
  "fleet.scale": { rollout: 4, commandId: "c-1" },
  "fleet.cordon": { id: "node-a", commandId: "c-2" },
  "fleet.uncordon": { id: "node-a", commandId: "c-3" },
  "replica.replace": { id: "rollout-1", commandId: "c-4" },
  "replica.kill": { id: "rollout-1", signal: "SIGKILL", commandId: "c-5" },
  "command.cancel": { target: "c-4", commandId: "c-6" },
  "fleet.changed": {
    ...{ id: "rollout-1", role: "rollout", node: "node-a", life: 3, deaths: 2 },
    ...{ from: "STALE", to: "HEALTHY", reason: text },
  },
  "command.accepted": { commandId: "c-1", kind: "fleet.scale", by: "muster i-9", asked: '{"rollout":4}', detail: text },
  "command.done": { commandId: "c-1", kind: "fleet.scale", by: "muster i-9", outcome: "done", detail: text },
  "command.refused": { commandId: "c-1", kind: "fleet.scale", by: "muster i-9", asked: "{}", reason: text },
  "heartbeat.beat": { version: null, phase: "idle", progress: 99, loopLagMs: 0.25, rssBytes: 2 ** 40 },
  "replica.probe": { nonce: 41 },
  "probe.answered": { nonce: 41, by: "loop" },
  "weights.initialize": { ...version, source: { kind: "checkpoint", path: "runs/demo/step-12" } },
  "weights.meta": {
    lineage: 1,
    rows: 291,
    bytes: 8192,
    digest: "sha256:0123",
  },
  "weights.pull": { ...version, sections, holders },
  "weights.publish": { ...version, parts: ["training"] },
  "weights.held": { ...version, sections, addresses: ["unix:/run/policy-1.sock"], bytes: 12288, durationMs: 3.5 },
  "weights.failed": { ...version, cause: text },
  "mesh.build": {
    epoch: 5,
    members: [
      { id: "policy-0", incarnation: "i-1" },
      { id: "policy-1", incarnation: "i-4" },
    ],
  },
  "mesh.built": { epoch: 5 },
  "mesh.failed": { epoch: 5, cause: text, missing: ["policy-1"] },
  "groups.lease": { leaseId: "3-17", ...version, items: [train, evaluate] },
  "groups.batch": {
    groups: [
      {
        groupId: "13.4",
        step: 13,
        index: 4,
        attempt: 0,
        trajectories: [
          {
            tokens: Uint8Array.of(1, 0, 0, 0, 2, 0, 0, 0),
            promptLength: 1,
            logprobs: Uint8Array.of(0, 0, 128, 191),
            lossMask: Uint8Array.of(1),
            reward: 0.5,
            status: "completed",
            segments: [{ version: 12, from: 0, to: 1 }],
          },
          {
            tokens: Uint8Array.of(1, 0, 0, 0),
            promptLength: 1,
            logprobs: new Uint8Array(),
            lossMask: new Uint8Array(),
            reward: 0,
            status: "aborted",
            segments: [],
            error: {
              name: "RangeError",
              message: text,
              kind: "user_error",
              stack: "RangeError\n    at judge (r.mjs:3:9)",
            },
          },
        ],
      },
    ],
  },
  "groups.begun": {
    lineage: 0,
    groups: [
      {
        step: 13,
        index: 4,
        responses: [
          {
            responseIds: Uint8Array.of(2, 0, 0, 0),
            logprobs: Uint8Array.of(0, 0, 128, 191),
            finish: null,
            segments: [{ version: 12, from: 0, to: 1 }],
          },
        ],
      },
    ],
  },
  "groups.piece": { bytes: Uint8Array.of(129, 166, 103) },
  "groups.joined": { kind: "groups.batch", pieces: [80, 82], bytes: 6, digest: "0123456789abcdef".repeat(4) },
  "groups.completed": {
    leaseId: "3-17",
    receipts: [
      {
        step: 13,
        index: 4,
        attempt: 0,
        streamSeq: 88,
        version: 12,
        completed: 3,
        aborted: 1,
        tokens: 70,
        rewardSum: 1.5,
      },
    ],
    causes: [cause],
    durationMs: 41.5,
  },
  "groups.held": { leaseId: "3-17", reason: text },
  "groups.saved": { leaseId: "3-17", items: [{ ...train, partial: { streamSeq: 41, tokens: 900 } }] },
  "groups.returned": { leaseId: "3-17", items: [train], reason: text },
  "evals.completed": { leaseId: "3-17", version: 12, chunk: 1, prompts: 36, correct: 20 },
  "step.run": { ...attempt, ...version, batch: [{ streamSeq: 88, groupIds: ["13.4", "13.5"] }] },
  "step.voted": {
    ...attempt,
    vote: "commit",
    finite: true,
    sections,
    stats: {
      tokens: 70,
      clipped: 2,
      klSum: -0.125,
      entropySum: 9.5,
      lossSum: 0.75,
      gradNorm: 0.5,
      computeMs: 12.5,
      reduceMs: 1.25,
    },
    cause: text,
    missing: ["policy-1"],
  },
  "step.apply": { ...attempt, ...version, sections },
  "step.discard": { ...attempt, reason: text },
  "checkpoint.save": { step: 12, ...version, sections, holders, groupsWatermark: 0, ledger: closedLedger },
  "checkpoint.saved": {
    step: 12,
    ...version,
    path: "runs/12",
    manifestDigest: "sha256:ff",
    bytes: 12288,
    durationMs: 9,
  },
  "checkpoint.failed": { step: 12, ...version, cause: text },
  "job.stop": { reason: text },
  "job.started": { term: 3, steps: 100, seed: 7 },
  "job.ended": { outcome: "done", reason: text, step: 12, ...version, sections, ledger },
  "member.joined": member,
  "member.left": { ...member, reason: text },
  "member.suspected": { ...member, evidence: text },
  "member.recovered": member,
  "member.hung": { ...member, evidence: text, by: "hang", silentMs: 120.5 },
  "member.died": { ...member, evidence: text },
  "mesh.changed": { epoch: 5, members: ["policy-0", "policy-1"] },
  "step.committed": {
    ...attempt,
    ...version,
    sections,
    reward: 0.5,
    tokens: 70,
    staleness: 1,
    groups: ["13.4"],
    ledger,
    members: 2,
    stepMs: 100,
    computeMs: 12.5,
    reduceMs: 1.25,
    gradNorm: 0.5,
    clipFraction: 0.025,
    loss: -0.0625,
    approxKl: 0.0009765625,
    entropy: 1.5,
  },
  "step.skipped": { step: 13, version: 12, reason: text },
  "step.retried": { step: 13, attempt: 3, reason: text },
  "groups.released": { holder: "rollout-1", count: 2, reason: text, items: ["4.7", "eval.1"] },
  "groups.quarantined": { item: "4.7", attempts: 3, holder: "rollout-1", failure: "engine_crash", reason: text },
  "groups.resumed": { holder: "rollout-2", items: ["4.7"], tokens: 80 },
  "groups.aborted": { holder: "rollout-1", ...cause },
  "eval.finished": { version: 12, prompts: 100, correct: 61 },
  "checkpoint.kept": { step: 12, ...version, path: "runs/12", manifestDigest: "sha256:ff" },
  "message.refused": {
    ...{ id: "i-9.4", said: "job.stop", commandId: "c-8", sender: "operator muster" },
    ...{ subject: "muster.demo.reports.operator.muster.job.stop", code: "malformed", detail: text, unsaid: 3 },
  },
  "samples.drawn": { ...drawn },
  "samples.shown": { ...drawn, replica: "rollout-1" },
  "alarm.raised": { alarm: "digest", detail: text },
  "checkpoint.best": { step: 12, ...version, path: "runs/12", prompts: 512, correct: 400 },
  "barrier.arrived": {
    ...{ epoch: 1, iteration: 7, phase: 3, rank: 2, ranks: 3, weights: [2, 1, 1], quorum: 2, timeoutMs: 60_000 },
    ...{ onMissing: "eject", items: 512, done: [{ from: 384, to: 512 }], decision: "eval" },
  },
  "barrier.ended": {
    ...{ epoch: 1, iteration: 7, phase: 3, outcome: "partial", arrived: [0, 2], missing: [1], reason: text },
    ...{
      waitedMs: 60_000,
      coverage: 0.75,
      shares: [
        { rank: 0, from: 256, to: 341 },
        { rank: 2, from: 341, to: 384 },
      ],
      decision: "eval",
    },
  },
  "barrier.refused": { epoch: 1, iteration: 7, phase: 3, rank: 1, by: "operator far", reason: text },
  "job.change": { settings: { lr: 1e-4, lrSchedule: "cosine" }, fromStep: 12, commandId: "c-1" },
  "job.changed": { fromStep: 12, settings: { lr: 1e-4, stalenessMax: 2 }, before: { lr: 1e-3, stalenessMax: 1 } },
  "job.phase": { phase: "update", partial: { step: 4, quorum: 0.75 }, commandId: "c-9" },
  "groups.import": {
    weights: { version: 3, sections: [{ name: "weights", bytes: 512, digest: "xxh3b:00ff" }] },
    receipts: [
      {
        ...{ step: 4, index: 7, attempt: 0, streamSeq: 9, firstSeq: 8, version: 3 },
        ...{ completed: 4, aborted: 0, tokens: 80, rewardSum: 2.5 },
      },
    ],
    commandId: "c-10",
  },
  "step.partial": { step: 4, missing: [3, 9], coverage: 0.875, quorum: 0.75 },
  "phase.ended": { phase: "rollout", step: 4, version: 3, groups: 16, of: 16, reason: text },
  "shards.saved": { step: 12, ...version, shards: { of: 3, write: [2] }, bytes: 4096, durationMs: 9 },
};

/** The sample of a kind in its envelope. */
export function sampleMessage(kind: Kind): AnyMessage {
  const message: Omit<Message, "kind" | "body"> = {
    v: 1,
    id: `i-7-${messageKinds.indexOf(kind)}`,
    job: "demo",
    from: "policy-0",
    role: "policy",
    incarnation: "i-7",
    to: "i-1",
    seq: messageKinds.indexOf(kind),
    term: 3,
    epoch: 5,
    deadlineMs: 1_000,
    sentAtMs: 1_750_000_000_000.5,
    cause: "i-1-9",
  };
  return { ...message, kind, body: samples[kind] } as AnyMessage;
}

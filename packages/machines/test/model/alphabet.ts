/**
 * A small alphabet of events for each machine: enough to reach every state, small enough to walk the whole graph. Two epochs, two
 * attempts, two versions; everything else is the same.
 */
import type { Body } from "@muster/protocol";
import { plan } from "../plans.ts";

const sections = [
  { name: "weights" as const, bytes: 8, digest: "w" },
  { name: "optimizer" as const, bytes: 8, digest: "o" },
];
const config = { timing: { ...plan.timing, drainMs: 9 }, limits: plan.limits };
const registered = { type: "replica.registered", body: { dataKey: new Uint8Array(), config: "" }, config };
const stopping = { type: "process.stopping", reason: "asked" };

const versions = [
  { lineage: 0, version: 1 },
  { lineage: 0, version: 2 },
];
const heldOf = (version: object) => ({ ...version, sections, addresses: [], bytes: 8, durationMs: 1 });
const holders = [{ id: "p1", addresses: ["unix:p1"] }];
const members = [{ id: "p0", incarnation: "i0" }];
const attempts = [
  { step: 2, attempt: 1, epoch: 1 },
  { step: 2, attempt: 2, epoch: 2 },
];
const batch = [{ streamSeq: 1, groupIds: ["2.0"] }];
const stats = { tokens: 1, clipped: 0, klSum: 0, entropySum: 0, lossSum: 0, gradNorm: 1, computeMs: 1, reduceMs: 1 };

const policy = [
  registered,
  ...versions.flatMap((version) => [
    { type: "weights.pull", body: { ...version, sections, holders } },
    { type: "weights.pulled", ...heldOf(version) },
    { type: "weights.errored", ...version, cause: "no route" },
    { type: "weights.publish", body: { ...version, parts: ["training"] } },
    { type: "weights.published", ...heldOf(version), training: ["unix:p0"] },
    { type: "weights.unpublished", ...version, cause: "no room" },
    { type: "step.promoted", ...heldOf(version) },
  ]),
  { type: "weights.initialize", body: { ...versions[0], source: { kind: "seed", seed: 1 } } },
  { type: "weights.initialized", ...heldOf(versions[0] ?? {}), meta: { lineage: 0, tensors: [], digest: "t" } },
  ...[1, 2].flatMap((epoch) => [
    { type: "mesh.build", body: { epoch, members } },
    { type: "mesh.joined", epoch },
    { type: "mesh.errored", epoch, cause: "late", missing: ["p1"] },
  ]),
  ...attempts.flatMap((attempt) => [
    { type: "step.run", body: { ...attempt, ...versions[0], batch } },
    { type: "step.computed", ...attempt, finite: true, sections, stats },
    { type: "step.errored", ...attempt, cause: "lost p1", missing: ["p1"] },
    { type: "step.apply", body: { ...attempt, ...versions[1], sections } },
    { type: "step.discard", body: { ...attempt, reason: "retry" } },
  ]),
];

const items: Body<"groups.lease">["items"] = [
  { purpose: "train", step: 1, index: 0, attempt: 0 },
  { purpose: "train", step: 1, index: 1, attempt: 0 },
  { purpose: "train", step: 1, index: 2, attempt: 0 },
];
const begunItems = [{ ...{ purpose: "train", step: 1, index: 0, attempt: 0 }, partial: { streamSeq: 7, tokens: 30 } }];
const chunk = (leaseId: string, index: number) => ({
  id: `${leaseId}/${index}`,
  leaseId,
  ...versions[0],
  items: items.slice(index * 2, index * 2 + 2),
});

const rollout = [
  registered,
  stopping,
  ...versions.flatMap((version) => [
    { type: "weights.pull", body: { ...version, sections, holders } },
    { type: "weights.pulled", ...heldOf(version) },
    { type: "weights.errored", ...version, cause: "no route" },
  ]),
  ...["1-1", "1-2"].flatMap((leaseId) => [
    { type: "groups.lease", body: { leaseId, ...versions[0], items } },
    { type: "groups.generated", chunkId: `${leaseId}/0`, messages: 1 },
    { type: "groups.generated", chunkId: `${leaseId}/1`, messages: 1 },
    { type: "groups.errored", chunk: chunk(leaseId, 0), cause: "out of memory", failure: "oom", messages: 0 },
    { type: "groups.begun", chunkId: `${leaseId}/0`, leaseId, items: begunItems },
    { type: "groups.saved", leaseId, items: begunItems },
    { type: "groups.heldBack", leaseId, reason: "the stream is full", items },
    { type: "groups.stored", chunkId: `${leaseId}/0`, leaseId, receipts: [], causes: [], durationMs: 1 },
    { type: "report.told", id: `${leaseId}/0` },
    { type: "receipts.due" },
  ]),
  { type: "evals.scored", chunkId: "1-1/0", leaseId: "1-1", version: 1, chunk: 0, prompts: 1, correct: 1 },
];

const saveOf = (step: number) => ({ step, ...versions[0], sections, holders, groupsWatermark: 0, ledger: {} });
const checkpoint = [
  registered,
  ...versions.flatMap((version) => [
    { type: "weights.pull", body: { ...version, sections, holders } },
    { type: "weights.pulled", ...heldOf(version) },
    { type: "weights.errored", ...version, cause: "no route" },
  ]),
  { type: "replica.fenced", body: { reason: "late" } },
  ...[2, 4].flatMap((step) => [
    { type: "checkpoint.save", body: saveOf(step) },
    { type: "checkpoint.written", step, ...versions[0], path: "runs", manifestDigest: "m", bytes: 8, durationMs: 1 },
    { type: "checkpoint.errored", step, lineage: versions[0]?.lineage ?? 0, cause: "disk full" },
    ...[[1, 2], []].flatMap((write) => [
      { type: "checkpoint.save", body: { ...saveOf(step), shards: { of: 2, write } } },
      { type: "shards.written", step, ...versions[0], shards: { of: 2, write }, bytes: 8, durationMs: 1 },
    ]),
  ]),
];

const membership = [
  registered,
  stopping,
  { type: "engine.failed", cause: "no memory" },
  ...["replica.refused", "replica.fenced", "replica.stop"].map((type) => ({ type, body: { reason: "so" } })),
];

const assign = (revision: number, replicas: object[]) => ({ type: "node.assign", body: { revision, replicas } });
const node = [
  registered,
  ...["replica.stop", "replica.fenced"].map((type) => ({ type, body: { reason: "so" } })),
  { type: "keeper.cleaned", ended: [{ id: "r0", pid: 4 }] },
  assign(1, [{ id: "r0", role: "rollout", life: 1 }]),
  assign(2, [{ id: "r0", role: "rollout", life: 3 }]),
  assign(3, []),
  { type: "keeper.started", id: "r0", life: 1, pid: 7 },
  ...[1, 2, 3].flatMap((life) => [
    { type: "keeper.exited", atMs: 5, id: "r0", life, pid: 7, code: 0, signal: null, oom: false },
    { type: "keeper.exited", atMs: 5, id: "r0", life, pid: 7, code: null, signal: "SIGKILL", oom: true },
  ]),
  { type: "keeper.due", id: "r0" },
  { type: "keeper.late", id: "r0" },
  { type: "node.signal", body: { commandId: "c1", id: "r0", signal: "SIGSTOP" } },
  { type: "keeper.signalled", body: { commandId: "c1", id: "r0", pid: 7, detail: "sent" } },
];

const report = (type: string, from: string, body: object) => ({
  type,
  atMs: 10,
  from,
  role: from[0] === "p" ? "policy" : "rollout",
  incarnation: `${from}-i`,
  body,
});
const controller = [
  { type: "controller.elected", atMs: 0, term: 1 },
  { type: "controller.elected", atMs: 5, term: 2 },
  ...[100, 2_000, 70_000].map((atMs) => ({ type: "controller.tick", atMs })),
  ...["p0", "p1", "r0", "r1"].flatMap((from) => [
    report("replica.register", from, {
      role: from[0] === "p" ? "policy" : "rollout",
      host: "h",
      pid: 1,
      engineBuild: "b",
    }),
    report("weights.held", from, { ...heldOf({ lineage: 0, version: 0 }), addresses: [`unix:${from}`] }),
    report("mesh.built", from, { epoch: 1 }),
    report("replica.draining", from, { reason: "asked" }),
    { type: "verdict.dead", atMs: 10, id: from, incarnation: `${from}-i`, evidence: "silence" },
  ]),
  { ...report("job.stop", "ops", { reason: "enough" }), role: "operator" },
];

const alphabets: Readonly<Record<string, readonly { readonly type: string }[]>> = {
  policy,
  rollout,
  checkpoint,
  membership,
  node,
  controller,
};

/** The events of a machine's alphabet. */
export function eventsOf(machine: string): readonly { readonly type: string }[] {
  return alphabets[machine] ?? [];
}

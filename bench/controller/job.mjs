/** The state of a job in the middle of its work, as large as one likes: two trainers that wait for the groups of a step, and samplers without a lease. */
import { planOf } from "@muster/machines/controller";
import { initialControllerState } from "@muster/machines/internal";
import { drawScenario } from "@muster/sim";

const version = 3;
const held = { lineage: 0, version };
const sections = /** @type {const} */ (["weights", "optimizer"]).map((name) => ({
  name,
  bytes: 8,
  digest: `${name}-${version}`,
}));
/** No deadline of the job comes while it is measured. */
const laterMs = 600_000;

/** @param {number} members @param {number} groups @returns {import("@muster/machines/controller").ControllerState} */
export function jobState(members, groups) {
  const start = initialControllerState(planFor(members, groups));
  const policies = ["policy-0", "policy-1"];
  const rollouts = Array.from({ length: members - policies.length }, (_, i) => `rollout-${i}`);
  const table = [...policies, ...rollouts].map((id, i) => memberOf(id, i + 1));
  const step = version + 1;
  const queue = Array.from({ length: groups }, (_, index) => ({ index, attempt: 0 }));
  return {
    ...start,
    term: 1,
    nowMs: 1_000,
    joins: members,
    engineBuild: "b",
    samplerBuild: "b",
    members: Object.fromEntries(table.map((member) => [member.id, member])),
    weights: { ...held, sections },
    mesh: { ...start.mesh, epoch: 1, members: policies, state: "ready", joins: members, built: policies },
    step: { ...start.step, step },
    groups: { [step]: { queue, receipts: {}, quarantined: [] } },
    progress: { atMs: 1_000, stage: 0, isShort: false },
    evaluatedVersion: version,
    ledger: { ...start.ledger, admitted: groups * start.plan.groupSize },
  };
}

/** @param {string} id @param {number} joinedSeq @returns {import("@muster/machines/controller").Member} */
function memberOf(id, joinedSeq) {
  return {
    id,
    role: joinedSeq <= 2 ? "policy" : "rollout",
    incarnation: `${id}-i`,
    joinedSeq,
    host: `host-${joinedSeq % 512}`,
    pid: joinedSeq,
    addresses: joinedSeq <= 2 ? [`tcp:host:${joinedSeq}`] : [],
    health: "healthy",
    hungAtMs: null,
    recoveries: [],
    held,
    order: null,
    retryAtMs: 0,
    unanswered: 0,
  };
}

/** @param {number} members @param {number} groups @returns {import("@muster/machines/controller").ControllerPlan} */
function planFor(members, groups) {
  const plan = planOf(drawScenario(1, "quiet").config);
  return {
    ...plan,
    steps: 1_000,
    stalenessMax: 0,
    checkpointReplicas: 0,
    memoryEvery: 0,
    replicas: { policy: 2, rollout: members - 2, checkpoint: 0 },
    minReplicas: { policy: 1, rollout: 1 },
    evalEverySteps: 0,
    evalPrompts: 0,
    groupsPerStep: groups,
    groupSize: 8,
    timing: { ...plan.timing, leaseMs: laterMs, stepMs: laterMs },
    limits: { ...plan.limits, leaseGroupsMax: 8, leasesPerRollout: 2, chunkGroups: 1 },
  };
}

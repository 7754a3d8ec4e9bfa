/** Bugs of the controller's logic: plans, orders, bounds and the end of the job. */
import type { ControllerEvent, ControllerState } from "@muster/machines/controller";
import type { Scenario } from "../cluster/scenario.ts";
import { withHangers } from "../seed/draw-scenario.ts";
import { type Canary, repeated } from "./canary.ts";
import { isCommit, logicBug } from "./logic-bug.ts";

/** Nothing is kept in memory: whoever comes has its weights from another trainer or from disk. */
function withoutMemory(scenario: Scenario): Scenario {
  const { config } = scenario;
  return { ...scenario, config: { ...config, checkpoint: { ...config.checkpoint, memoryEvery: 0 } } };
}

/** One prompt in twenty ends whoever draws from it, and is given up after three. */
function withKillers(scenario: Scenario): Scenario {
  const { config, work } = scenario;
  const failure = { ...config.failure, engineCrash: { ...config.failure.engineCrash, attempts: 3 } };
  return { ...scenario, config: { ...config, failure }, work: { ...work, killerRate: 0.05, hangerRate: 0 } };
}

/** True when the job goes back to a checkpoint between two states. */
function isRollback(after: ControllerState, before: ControllerState): boolean {
  return before.weights !== null && after.weights === null;
}

/** The id of whom an event says that its last life is over; empty when it says no such thing. */
function endedBy(event: ControllerEvent): string {
  if (event.type === "verdict.dead") return event.id;
  if (event.type === "process.exited") return event.body.id;
  return event.type === "replica.register" ? event.from : "";
}

type Waiting = ControllerState["groups"][number]["queue"][number];

/** What waits with as many attempts as it had on its lease. */
function asBefore(item: Waiting, attempt: number): Waiting {
  return { ...item, attempt };
}

/** The queues with what was just released changed; `null` gives it up. */
function withQueue(
  after: ControllerState,
  before: ControllerState,
  change: (item: Waiting, attempt: number) => Waiting | null,
): ControllerState {
  const leased = Object.values(before.leases).flatMap(({ items }) => items);
  let { quarantined } = after.ledger;
  const groups = Object.entries(after.groups).map(([step, group]) => {
    const given: number[] = [];
    const queue = group.queue.flatMap((item) => {
      const was = leased.find(
        (one) => one.purpose === "train" && one.step === Number(step) && one.index === item.index,
      );
      const isNew = !before.groups[Number(step)]?.queue.some(({ index }) => index === item.index);
      if (!isNew || was?.purpose !== "train") return item;
      const changed = change(item, was.attempt);
      if (!changed) given.push(item.index);
      return changed ?? [];
    });
    quarantined += given.length * after.plan.groupSize;
    return [step, { ...group, queue, quarantined: [...group.quarantined, ...given] }];
  });
  return { ...after, groups: Object.fromEntries(groups), ledger: { ...after.ledger, quarantined } };
}

/** Canaries in the controller's plans. */
export const planCanaries: readonly Canary[] = [
  logicBug("rollback-one-too-short", "a rollback leaves the first step after the checkpoint as it is", {
    profile: "kills",
    seedsMax: 40,
    line: {
      keeps: (after, before) =>
        isRollback(after, before) ? { ...after, step: { ...after.step, step: after.step.step + 1 } } : after,
    },
  }),
  logicBug("rollback-forgets-checkpoint", "a rollback forgets the checkpoint that it goes back to", {
    profile: "kills",
    seedsMax: 60,
    line: {
      keeps: (after, before) =>
        isRollback(after, before) ? { ...after, checkpoints: { ...after.checkpoints, saved: null } } : after,
    },
  }),
  logicBug("damaged-tried-again", "a checkpoint that turned out to be damaged is restored again and again", {
    profile: "storage",
    seedsMax: 20,
    line: {
      keeps: (after, before) =>
        after.fallback.damaged === before.fallback.damaged ? after : { ...before, members: after.members },
    },
  }),
  logicBug(
    "purged-steps-forgotten",
    "after a damaged checkpoint the ledger still counts the steps that are purged as trained",
    {
      profile: "storage",
      seedsMax: 20,
      line: {
        keeps: (after, before) =>
          after.fallback.damaged === before.fallback.damaged ? after : { ...after, ledger: before.ledger },
      },
    },
  ),
  logicBug("leases-without-bound", "a rollout replica gets more leases than it may have", {
    profile: "quiet",
    seedsMax: 20,
    line: {
      keeps: (after) => {
        const { plan } = after;
        if (plan.limits.leasesPerRollout > 3) return after;
        const limits = { ...plan.limits, leasesPerRollout: plan.limits.leasesPerRollout + 4, leaseGroupsMax: 1 };
        return { ...after, plan: { ...plan, limits } };
      },
    },
  }),
  logicBug("attempts-not-counted", "a group that ends whoever holds it is leased again for ever", {
    profile: "quiet",
    seedsMax: 20,
    shape: withKillers,
    line: {
      keeps: (after, before) => {
        if (after.groups === before.groups) return after;
        const groups = Object.entries(after.groups).map(([step, group]) => [
          step,
          { ...group, queue: group.queue.map((item) => ({ ...item, attempt: 0 })) },
        ]);
        return { ...after, groups: Object.fromEntries(groups) };
      },
    },
  }),
  logicBug("hang-blames-nobody", "what hangs its holder is leased again for ever", {
    profile: "quiet",
    seedsMax: 30,
    shape: (scenario) => withHangers(scenario, 0.05),
    line: {
      keeps: (after, before, event) => (event.type === "verdict.hung" ? withQueue(after, before, asBefore) : after),
    },
  }),
  logicBug("hang-blames-all", "all that a hanging replica holds is given up at once", {
    profile: "quiet",
    seedsMax: 30,
    shape: (scenario) => withHangers(scenario, 0.05),
    line: {
      keeps: (after, before, event) => (event.type === "verdict.hung" ? withQueue(after, before, () => null) : after),
    },
  }),
  logicBug("loss-blames-all", "all that a lost replica holds is given up at once", {
    profile: "kills",
    seedsMax: 10,
    line: {
      keeps: (after, before, event) => (event.type === "process.exited" ? withQueue(after, before, () => null) : after),
    },
  }),
  logicBug("ends-one-step-early", "the job ends when its last step begins", {
    profile: "quiet",
    seedsMax: 10,
    line: {
      keeps: (after) =>
        after.step.step === after.plan.steps && !after.ending
          ? { ...after, ending: { outcome: "done", reason: "all steps are committed", announced: false } }
          : after,
    },
  }),
  logicBug("one-step-too-many", "the groups of a step after the last one are admitted", {
    profile: "quiet",
    seedsMax: 10,
    line: {
      keeps: (after) => {
        const { plan, groups, ledger, step } = after;
        const next = plan.steps + 1;
        if (step.step !== plan.steps || groups[next] || !groups[plan.steps]) return after;
        const queue = Array.from({ length: plan.groupsPerStep }, (_, index) => ({ index, attempt: 0 }));
        const admitted = ledger.admitted + plan.groupsPerStep * plan.groupSize;
        const opened = { ...groups, [next]: { queue, receipts: {}, quarantined: [] } };
        return { ...after, groups: opened, ledger: { ...ledger, admitted } };
      },
    },
  }),
  logicBug("holds-without-pulling", "a joiner counts as holding the weights when it registers", {
    profile: "kills",
    seedsMax: 40,
    shape: withoutMemory,
    line: {
      keeps: (after, before, event) => {
        const joiner = event.type === "replica.register" ? after.members[event.from] : undefined;
        if (joiner?.role !== "policy" || !after.weights || before.members[joiner.id] === joiner) return after;
        const { lineage, version } = after.weights;
        const held = { ...joiner, held: { lineage, version }, order: null };
        return { ...after, members: { ...after.members, [joiner.id]: held } };
      },
    },
  }),
  logicBug("failed-checkpoint-given-up", "a checkpoint that failed is not tried again before the job ends", {
    profile: "quiet",
    seedsMax: 20,
    shape: (scenario) => {
      const { config, work } = scenario;
      const replicas = { ...config.replicas, checkpoint: 1 };
      const timing = { ...config.timing, checkpointMs: 30_000 };
      const checkpoint = { ...config.checkpoint, everySteps: 2 };
      return {
        ...scenario,
        safetyMs: 120_000,
        limitMs: 3_600_000,
        config: { ...config, replicas, timing, checkpoint, steps: 40 },
        work: { ...work, shardMs: 8_000 },
      };
    },
    stage: () => [{ kind: "failpoint", point: "checkpoint.fs-write", nth: 1, action: { type: "error" } }],
    line: {
      does: (effect, { checkpoints, step, plan }) =>
        effect.type === "command" &&
        effect.kind === "checkpoint.save" &&
        checkpoints.failures > 0 &&
        step.step <= plan.steps
          ? null
          : effect,
    },
  }),
  logicBug("lease-not-said", "the first group of a step is leased and its holder not told, five times", {
    profile: "quiet",
    seedsMax: 10,
    shape: (scenario) => {
      const { config } = scenario;
      return { ...scenario, config: { ...config, timing: { ...config.timing, leaseMs: 30_000, stepMs: 120_000 } } };
    },
    line: {
      does: (effect) => {
        if (effect.type !== "command" || effect.kind !== "groups.lease") return effect;
        const isFirst = effect.body.items.some(
          (item) => item.purpose === "train" && item.index === 0 && item.attempt < 5,
        );
        return isFirst ? null : effect;
      },
    },
  }),
  logicBug("best-not-spared", "orders to save do not name the best checkpoint, so that it goes with the old ones", {
    profile: "quiet",
    seedsMax: 40,
    line: {
      does: (effect) => {
        if (effect.type !== "command" || effect.kind !== "checkpoint.save") return effect;
        const { best: _, ...body } = effect.body;
        return { ...effect, body };
      },
    },
  }),
  logicBug("checkpoint-never-ordered", "no checkpoint is ever written", {
    profile: "quiet",
    seedsMax: 20,
    line: { does: (effect) => (effect.type === "command" && effect.kind === "checkpoint.save" ? null : effect) },
  }),
  logicBug("batch-shorter-than-said", "members train on all groups of a step but the last", {
    profile: "quiet",
    seedsMax: 10,
    line: {
      does: (effect) => {
        if (effect.type !== "command" || effect.kind !== "step.run") return effect;
        const batch = effect.body.batch.map((part, i, all) =>
          i === all.length - 1 && part.groupIds.length > 1 ? { ...part, groupIds: part.groupIds.slice(0, -1) } : part,
        );
        return { ...effect, body: { ...effect.body, batch } };
      },
    },
  }),
  logicBug("purged-too-early", "groups are purged that a later step points to", {
    profile: "quiet",
    seedsMax: 60,
    line: {
      does: (effect) => (effect.type === "groups.purge" ? { ...effect, beforeSeq: effect.beforeSeq + 1_000 } : effect),
    },
  }),
  logicBug("admission-not-said", "rollout replicas are admitted and never hear of it", {
    profile: "quiet",
    seedsMax: 5,
    line: { does: (effect) => (effect.type === "admit" && effect.to.startsWith("rollout") ? null : effect) },
  }),
  logicBug("late-joiner-not-admitted", "who registers after the first step is not answered", {
    profile: "kills",
    seedsMax: 30,
    line: {
      does: (effect, before) => (effect.type === "admit" && before.step.step > 1 ? null : effect),
    },
  }),
  logicBug(
    "dead-trainer-kept",
    "a trainer that died stays a member, whatever is said of its end or comes in its place",
    {
      profile: "kills",
      seedsMax: 30,
      line: {
        hears: (event, { members }) => {
          const member = members[endedBy(event)];
          return member?.role === "policy" ? { type: "controller.tick", atMs: event.atMs } : event;
        },
      },
    },
  ),
  logicBug("next-mesh-waits", "when a trainer is lost the others wait for its successor", {
    profile: "kills",
    seedsMax: 30,
    line: {
      keeps: (after, before) => {
        const isLess = after.mesh.members.length < before.mesh.members.length && after.mesh.epoch > before.mesh.epoch;
        return isLess
          ? { ...after, mesh: { ...before.mesh, state: "broken", dueAtMs: after.nowMs + 3 * after.plan.timing.meshMs } }
          : after;
      },
      does: (effect, { mesh }) => {
        const isBuild = effect.type === "command" && effect.kind === "mesh.build";
        return isBuild && effect.body.members.length < mesh.members.length ? null : effect;
      },
    },
  }),
  logicBug("sampler-in-the-way", "the loss of a sampler ends the mesh of the running step", {
    profile: "kills",
    seedsMax: 30,
    line: {
      keeps: (after, before) => {
        const isLost = Object.values(before.members).some(
          ({ id, role, incarnation }) => role === "rollout" && after.members[id]?.incarnation !== incarnation,
        );
        const isHit = isLost && before.step.state === "running" && after.mesh.state === "ready";
        return isHit ? { ...after, mesh: { ...after.mesh, state: "broken" } } : after;
      },
    },
  }),
  logicBug("mesh-never-broken", "a mesh that failed is taken for one that works, also with new lives in it", {
    profile: "kills",
    seedsMax: 30,
    line: {
      keeps: (after, before) =>
        before.mesh.state === "ready" && after.mesh.state === "broken"
          ? { ...after, mesh: { ...after.mesh, state: "ready", joins: Number.MAX_SAFE_INTEGER } }
          : after,
    },
  }),
  logicBug("gone-not-remembered", "an evicted member is admitted when its registration is repeated", {
    profile: "kills",
    seedsMax: 60,
    stage: (scenario) => [
      {
        kind: "noise",
        noise: { delayMs: 1, jitterMs: 200, coreLoss: 0, answerLoss: 0.3, duplicates: 0.9, reorder: true },
      },
      ...repeated(scenario, 2_000, (atMs) => ({ kind: "kill-all" as const, role: "rollout", atMs, isSeen: true })),
    ],
    line: { keeps: (after) => (after.gone.length > 0 ? { ...after, gone: [] } : after) },
  }),
  logicBug("suspicion-kept", "a new controller keeps the suspicions of the last one", {
    profile: "swarm",
    seedsMax: 60,
    stage: (scenario) =>
      Array.from({ length: scenario.config.replicas.rollout }, (_, i) => i + 1).flatMap((i) => [
        {
          kind: "disconnect",
          atMs: 12_000,
          forMs: scenario.config.timing.suspectAfterMs + 3_500,
          node: `rollout-${i}`,
        },
        { kind: "second-controller", atMs: 12_000 + scenario.config.timing.suspectAfterMs + 2_500 },
      ]),
    line: {
      keeps: (after, before, event) => {
        if (event.type !== "controller.elected") return after;
        const members = Object.entries(after.members).map(([id, member]) => [
          id,
          { ...member, health: before.members[id]?.health ?? member.health },
        ]);
        return { ...after, members: Object.fromEntries(members) };
      },
    },
  }),
  logicBug("skipped-step-applied", "a step that was skipped counts as committed weights", {
    profile: "quiet",
    seedsMax: 60,
    line: {
      keeps: (after, before) => {
        const { weights } = before;
        if (after.step.step === before.step.step || isCommit(after, before) || !weights || !after.weights) return after;
        return { ...after, weights: { ...weights, version: weights.version + 1 } };
      },
    },
  }),
];

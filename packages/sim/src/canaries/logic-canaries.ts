/** Bugs of the controller's logic: counts, leases, votes, members. */
import type { WorkItem } from "@muster/protocol";
import type { Scenario } from "../cluster/scenario.ts";
import type { Fault } from "../faults/fault.ts";
import { type Canary, repeated } from "./canary.ts";
import { isCommit, logicBug } from "./logic-bug.ts";

/** All trainers stand still for longer than anybody waits for them. */
const pausedTrainers = ({ config }: Scenario): readonly Fault[] =>
  Array.from({ length: config.replicas.policy }, (_, i) => ({
    kind: "pause",
    node: `policy-${i + 1}`,
    atMs: 8_000,
    forMs: 60_000,
  }));

/** Which group an item is, whatever was saved of it. */
const workOf = (item: WorkItem): string => (item.purpose === "train" ? `${item.step}.${item.index}` : "");

/** Canaries in the controller's logic. */
export const logicCanaries: readonly Canary[] = [
  logicBug("says-what-nobody-takes", "a step is ordered with a batch that the schema of the order does not take", {
    profile: "quiet",
    seedsMax: 2,
    line: {
      does: (effect) =>
        effect.type === "command" && effect.kind === "step.run"
          ? { ...effect, body: { ...effect.body, batch: [] } }
          : effect,
    },
  }),
  logicBug("retry-counted-twice", "a step that is tried again is counted as trained", {
    profile: "kills",
    seedsMax: 20,
    line: {
      keeps: (after, before) =>
        after.step.attempt > before.step.attempt
          ? { ...after, ledger: { ...after.ledger, trained: after.ledger.trained + 1 } }
          : after,
    },
  }),
  logicBug("skip-not-settled", "the groups of a skipped step are in no account", {
    profile: "quiet",
    seedsMax: 60,
    line: {
      keeps: (after, before) =>
        after.step.step > before.step.step && !isCommit(after, before)
          ? { ...after, ledger: { ...after.ledger, quarantined: before.ledger.quarantined } }
          : after,
    },
  }),
  logicBug("rollback-keeps-trained", "steps that are rolled back stay trained", {
    profile: "kills",
    seedsMax: 40,
    line: {
      keeps: (after, before) => (before.weights && !after.weights ? { ...after, ledger: before.ledger } : after),
    },
  }),
  // Whoever comes back under its name frees it: only a holder that stays away shows it.
  logicBug("lease-kept-by-the-dead", "the lease of a lost member is not released", {
    profile: "kills",
    seedsMax: 45,
    line: {
      keeps: (after, before) => {
        const lost = Object.entries(before.leases).filter(([, { holder }]) => !after.members[holder]);
        if (lost.length === 0) return after;
        const held = lost.map(([id, lease]) => [id, { ...lease, dueAtMs: Number.MAX_SAFE_INTEGER }] as const);
        // Whatever was saved of them goes with them.
        const taken = new Set(lost.flatMap(([, { items }]) => items.map(workOf)));
        const groups = Object.entries(after.groups).map(([step, group]) => {
          const isTaken = (index: number): boolean => taken.has(`${step}.${index}`);
          return [step, { ...group, queue: group.queue.filter(({ index }) => !isTaken(index)) }] as const;
        });
        return {
          ...after,
          groups: Object.fromEntries(groups),
          leases: { ...after.leases, ...Object.fromEntries(held) },
        };
      },
    },
  }),
  logicBug("absence-noted-at-every-tick", "while somebody is missing every tick is a record of the journal", {
    profile: "kills",
    seedsMax: 20,
    line: {
      keeps: (after, _, event) =>
        event.type === "controller.tick" && after.progress.isShort
          ? { ...after, progress: { ...after.progress, atMs: event.atMs } }
          : after,
    },
  }),
  logicBug("time-stands-still", "deadlines of the controller never pass", {
    profile: "swarm",
    seedsMax: 60,
    line: { hears: (event, state) => (event.type === "controller.elected" ? event : { ...event, atMs: state.nowMs }) },
  }),
  logicBug("staleness-off-by-one", "groups are leased one version too early", {
    profile: "quiet",
    seedsMax: 20,
    line: {
      keeps: (after) =>
        after.plan.stalenessMax > 3
          ? after
          : { ...after, plan: { ...after.plan, stalenessMax: after.plan.stalenessMax + 4 } },
    },
  }),
  logicBug("incarnation-ignored", "what an earlier life says counts for the present one", {
    profile: "swarm",
    seedsMax: 60,
    stage: (scenario) => [
      ...repeated(scenario, 4_000, (atMs) => ({
        kind: "failpoint",
        point: "policy.before-publish.weights.held",
        nth: atMs / 4_000,
        action: { type: "delay", delayMs: 6_000 },
      })),
      ...repeated(scenario, 7_000, (atMs) => ({ kind: "kill-all", role: "policy", atMs, isSeen: true })),
    ],
    line: {
      hears: (event, state) =>
        "incarnation" in event && "from" in event && event.type !== "replica.register" && event.role !== "operator"
          ? { ...event, incarnation: state.members[event.from]?.incarnation ?? event.incarnation }
          : event,
    },
  }),
  logicBug("abort-counts-as-commit", "a vote to abort is taken for one to commit", {
    profile: "swarm",
    seedsMax: 20,
    stage: (scenario) =>
      repeated(scenario, 5_000, (atMs) => ({
        kind: "failpoint",
        point: "policy.accumulate",
        nth: atMs / 5_000,
        action: { type: "error" },
      })),
    line: {
      hears: (event, state) => {
        if (event.type !== "step.voted" || event.body.vote === "commit") return event;
        const sections = Object.values(state.step.votes)[0]?.sections ?? state.weights?.sections ?? [];
        return { ...event, body: { ...event.body, vote: "commit", sections: [...sections] } };
      },
    },
  }),
  logicBug("one-vote-is-enough", "a step is committed on the first vote", {
    profile: "quiet",
    seedsMax: 10,
    line: {
      keeps: (after, _, event) => {
        const vote = event.type === "step.voted" ? after.step.votes[event.from] : undefined;
        if (!vote || after.step.state !== "running") return after;
        const votes = Object.fromEntries(after.mesh.members.map((id) => [id, vote]));
        return { ...after, step: { ...after.step, votes } };
      },
    },
  }),
  logicBug("non-finite-committed", "a vote that found numbers not finite is committed", {
    profile: "quiet",
    seedsMax: 60,
    line: {
      hears: (event) => (event.type === "step.voted" ? { ...event, body: { ...event.body, finite: true } } : event),
    },
  }),
  logicBug("group-trained-again", "a group of the last step is trained in the next one too", {
    profile: "quiet",
    seedsMax: 20,
    line: {
      keeps: (after, before) => {
        const last = after.history[before.step.step]?.[0];
        const groups = after.groups[after.step.step];
        if (!isCommit(after, before) || !last || !groups) return after;
        const receipts = { ...groups.receipts, [last.index]: last };
        const queue = groups.queue.filter(({ index }) => index !== last.index);
        return { ...after, groups: { ...after.groups, [after.step.step]: { ...groups, queue, receipts } } };
      },
    },
  }),
  logicBug("group-lost", "a group that is handed back is forgotten", {
    profile: "kills",
    seedsMax: 30,
    line: {
      keeps: (after, before, event) => {
        const groups = event.type === "groups.returned" ? after.groups[after.step.step] : undefined;
        const known = before.groups[after.step.step];
        if (!groups || !known || groups.queue.length <= known.queue.length) return after;
        return { ...after, groups: { ...after.groups, [after.step.step]: { ...groups, queue: known.queue } } };
      },
    },
  }),
  logicBug("leaver-in-the-mesh", "a lost member is still named in the next mesh", {
    profile: "kills",
    seedsMax: 20,
    line: {
      does: (effect, before) => {
        if (effect.type !== "command" || effect.kind !== "mesh.build") return effect;
        const named = new Set(effect.body.members.map(({ id }) => id));
        const left = before.mesh.members.filter((id) => !named.has(id));
        const ghosts = left.map((id) => ({ id, incarnation: before.members[id]?.incarnation ?? "ghost" }));
        return { ...effect, body: { ...effect.body, members: [...effect.body.members, ...ghosts] } };
      },
    },
  }),
  logicBug("fence-not-said", "an evicted member is not told", {
    profile: "swarm",
    seedsMax: 60,
    stage: pausedTrainers,
    line: { does: (effect) => (effect.type === "command" && effect.kind === "replica.fenced" ? null : effect) },
  }),
  logicBug("history-lost", "a committed step forgets what it was trained on", {
    profile: "quiet",
    seedsMax: 10,
    line: {
      keeps: (after, before) =>
        isCommit(after, before) ? { ...after, history: { ...after.history, [before.step.step]: [] } } : after,
    },
  }),
  logicBug("evicted-on-suspicion", "a member that is quiet for a moment is evicted", {
    profile: "kills",
    seedsMax: 30,
    line: {
      hears: (event, state) => {
        const [first] = Object.values(state.members);
        const isMoment = event.type === "checkpoint.saved" || event.type === "evals.completed";
        if (!isMoment || !first) return event;
        const { id, incarnation } = first;
        const why = { kind: "silence", evidence: "quiet for a moment", silentMs: 1 } as const;
        return { type: "verdict.dead", atMs: event.atMs, id, incarnation, ...why };
      },
    },
  }),
  logicBug("pause-without-end", "who flapped is never admitted again", {
    profile: "swarm",
    seedsMax: 30,
    stage: pausedTrainers,
    line: {
      keeps: (after, before) => {
        if (after.evictions === before.evictions) return after;
        const evictions = Object.entries(after.evictions).map(([id, eviction]) => [
          id,
          { ...eviction, untilMs: Number.MAX_SAFE_INTEGER },
        ]);
        return { ...after, evictions: Object.fromEntries(evictions) };
      },
    },
  }),
  logicBug("drifted-counted-as-holder", "a trainer whose weights drifted counts as holding those that were committed", {
    profile: "drift",
    seedsMax: 20,
    line: {
      keeps: (after, before, event) => {
        const { weights } = after;
        if (!weights || !isCommit(after, before) || event.type === "weights.held") return after;
        const { lineage, version } = weights;
        const drifted = Object.values(after.members).filter(
          ({ id, held, isFollowing }) => isFollowing && held === null && before.members[id]?.held,
        );
        const holders = drifted.map((member) => [member.id, { ...member, held: { lineage, version } }]);
        return { ...after, members: { ...after.members, ...Object.fromEntries(holders) } };
      },
    },
  }),
];

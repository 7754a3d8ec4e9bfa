/**
 * A rollout replica: pulls weights at its own pace while it generates leased groups chunk by chunk. Held work is finished or handed
 * back, never dropped (semantics 6.5).
 */
import type { Body, FailureKind } from "@muster/protocol";
import { assign, enqueueActions, setup } from "xstate";
import { effectAction, logicOf } from "../from-xstate.ts";
import { cutItems, untoldMax } from "../lease-chunks.ts";
import { report } from "../replica-events.ts";
import { isOlder } from "../version-key.ts";
import { heldNow, unreachable, wordOnHeld } from "./held.ts";
import { keptMsMax, reportOf, tellStored, toldIdsOf } from "./kept-receipts.ts";
import {
  type Chunk,
  type RolloutContext,
  type RolloutEffect,
  type RolloutEvent,
  type RolloutInput,
  rolloutInputOf,
} from "./rollout-events.ts";

/** Leases remembered to know repeated orders. */
const seenMax = 64;

/** Longest reason in a report. */
const reasonMax = 2_000;

/** Share of a lease after which its holder hands back what is not finished: the rest of the time is for that. */
const leaseShare = 0.8;

const receiptsId = "receipts";

const dueId = (leaseId: string): string => `due ${leaseId}`;

const drop = (kind: string, reason: string): { type: "effect"; params: RolloutEffect } => ({
  type: effectAction,
  params: { type: "drop", kind, reason },
});

/** Cuts a lease into chunks. Pure. */
export function chunksOf({ leaseId, lineage, version, items }: Body<"groups.lease">, size: number): readonly Chunk[] {
  return cutItems(items, size).map((own, at) => ({ id: `${leaseId}/${at}`, leaseId, lineage, version, items: own }));
}

/** What is still to be told, with more or less of it about one chunk or lease. Pure. */
function countUntold(untold: RolloutContext["untold"], id: string, by: number): RolloutContext["untold"] {
  const { [id]: before = 0, ...others } = untold;
  return before + by === 0 ? others : { ...others, [id]: before + by };
}

const returned = (chunk: Chunk, reason: string, failure: FailureKind | null = null): RolloutEffect =>
  report(
    "groups.returned",
    {
      leaseId: chunk.leaseId,
      items: [...chunk.items],
      reason: reason.slice(0, reasonMax),
      ...(failure ? { failure } : {}),
    },
    chunk.id,
  );

const failed = ({ wanted }: RolloutContext, cause: string): RolloutEffect =>
  wanted ? report("weights.failed", { lineage: wanted.lineage, version: wanted.version, cause }) : unreachable;

const machine = setup({
  types: {} as { context: RolloutContext; events: RolloutEvent; input: RolloutInput },
  actions: {
    [effectAction]: (_, _effect: RolloutEffect) => {},
    /** Lets go of the chunk; with the last one of a lease its time does not matter any more. */
    leave: enqueueActions(({ context: { current, queue, untold }, enqueue }) => {
      if (!current) return;
      if (!queue.some(({ leaseId }) => leaseId === current.leaseId)) enqueue.cancel(dueId(current.leaseId));
      enqueue.assign({ current: null, overdue: null, untold: countUntold(untold, current.id, -1) });
    }),
    /** More or less is still to be told about a chunk or a lease. */
    untold: assign(({ context }, { id, by }: { readonly id: string; readonly by: number }) => ({
      untold: countUntold(context.untold, id, by),
    })),
  },
  guards: {
    isHeld: ({ context, event }) =>
      event.type === "weights.pull" &&
      event.body.version === context.held?.version &&
      event.body.lineage === context.held.lineage,
    isOlder: ({ context, event }) =>
      event.type === "weights.pull" && isOlder(event.body, [context.held, context.wanted]),
    isAnother: ({ context, event }) =>
      event.type === "weights.pull" &&
      (event.body.version !== context.wanted?.version || event.body.lineage !== context.wanted.lineage),
    isWanted: ({ context, event }) =>
      (event.type === "weights.pulled" || event.type === "weights.errored") &&
      event.version === context.wanted?.version &&
      event.lineage === context.wanted.lineage,
    isCurrent: ({ context, event }) => event.type === "groups.generated" && event.chunkId === context.current?.id,
    isCurrentChunk: ({ context, event }) => event.type === "groups.errored" && event.chunk.id === context.current?.id,
    // What dies untold with this process must not be more than the controller takes for suspects.
    mayBegin: ({ context }) =>
      context.queue.length > 0 && Object.values(context.untold).filter((count) => count > 0).length <= untoldMax,
    isKnown: ({ context, event }) => event.type === "groups.lease" && context.seen.includes(event.body.leaseId),
    isFull: ({ context }) =>
      context.isLeaving || new Set(context.queue.map(({ leaseId }) => leaseId)).size >= context.leasesMax,
  },
  delays: {
    pull: ({ context }) => context.timing.pullMs,
    lease: ({ context }) => context.timing.leaseMs,
  },
}).createMachine({
  id: "rollout",
  type: "parallel",
  context: ({ input }) => ({
    ...input,
    held: null,
    isEngineTold: false,
    wanted: null,
    queue: [],
    current: null,
    untold: {},
    kept: null,
    overdue: null,
    seen: [],
    isLeaving: false,
  }),
  on: {
    "replica.registered": { actions: assign(({ event }) => rolloutInputOf(event.config)) },
    "process.stopping": {
      actions: enqueueActions(({ context, event, enqueue }) => {
        if (context.kept) enqueue({ type: effectAction, params: reportOf(context.kept) });
        enqueue.assign({ kept: null });
        for (const chunk of context.queue) enqueue({ type: effectAction, params: returned(chunk, event.reason) });
        for (const { id } of context.queue) enqueue({ type: "untold", params: { id, by: 1 } });
        enqueue.assign({ queue: [], isLeaving: true });
        if (context.current) enqueue({ type: effectAction, params: { type: "groups.handBack", reason: event.reason } });
      }),
    },
    "groups.lease": [
      { guard: "isKnown", actions: drop("groups.lease", "known lease") },
      {
        guard: "isFull",
        actions: [
          { type: "untold", params: ({ event }) => ({ id: event.body.leaseId, by: 1 }) },
          {
            type: effectAction,
            params: ({ context, event: { body } }) => {
              const reason = context.isLeaving ? "leaving" : "too many leases";
              return report("groups.returned", { leaseId: body.leaseId, items: body.items, reason }, body.leaseId);
            },
          },
        ],
      },
      {
        actions: enqueueActions(({ context, event, enqueue }) => {
          const { leaseId } = event.body;
          enqueue.assign({
            queue: [...context.queue, ...chunksOf(event.body, context.chunkGroups)],
            seen: [...context.seen, leaseId].slice(-seenMax),
          });
          const delay = context.timing.leaseMs * leaseShare;
          enqueue.raise({ type: "lease.due", leaseId }, { id: dueId(leaseId), delay });
        }),
      },
    ],
    "lease.due": {
      actions: enqueueActions(({ context, event: { leaseId }, enqueue }) => {
        const isMeant = (chunk: Chunk): boolean => chunk.leaseId === leaseId;
        const reason = "the lease is nearly over";
        // Of a short lease no time is left to wait in.
        if (context.kept?.body.leaseId === leaseId) {
          enqueue({ type: effectAction, params: reportOf(context.kept) });
          enqueue.cancel(receiptsId);
          enqueue.assign({ kept: null });
        }
        for (const chunk of context.queue.filter(isMeant)) {
          enqueue({ type: effectAction, params: returned(chunk, reason) });
          enqueue({ type: "untold", params: { id: chunk.id, by: 1 } });
        }
        enqueue.assign({ queue: context.queue.filter((chunk) => !isMeant(chunk)) });
        if (context.current?.leaseId !== leaseId) return;
        enqueue.assign({ overdue: leaseId });
        enqueue({ type: effectAction, params: { type: "groups.handBack", reason } });
      }),
    },
    "report.told": {
      actions: enqueueActions(({ event, enqueue }) => {
        for (const id of toldIdsOf(event.id)) enqueue({ type: "untold", params: { id, by: -1 } });
      }),
    },
    "groups.stored": {
      actions: enqueueActions(({ context, event, enqueue }) => {
        const { tell, kept } = tellStored(context, event);
        // What was kept before is told now, whatever is kept from here on.
        if (context.kept) enqueue.cancel(receiptsId);
        for (const receipts of tell) enqueue({ type: effectAction, params: reportOf(receipts) });
        if (kept) enqueue.raise({ type: "receipts.due" }, { id: receiptsId, delay: keptMsMax });
        enqueue.assign({ kept });
      }),
    },
    "receipts.due": {
      actions: enqueueActions(({ context: { kept }, enqueue }) => {
        enqueue.assign({ kept: null });
        if (kept) enqueue({ type: effectAction, params: reportOf(kept) });
      }),
    },
    "groups.begun": {
      actions: {
        type: effectAction,
        params: ({ event: { chunkId, leaseId, items } }) =>
          report("groups.returned", { leaseId, items: [...items], reason: "handed back unfinished" }, chunkId),
      },
    },
    "groups.heldBack": {
      actions: {
        type: effectAction,
        params: ({ event: { leaseId, reason, items } }) =>
          report("groups.held", { leaseId, reason, items: [...items] }),
      },
    },
    "groups.saved": {
      actions: {
        type: effectAction,
        params: ({ event: { leaseId, items } }) => report("groups.saved", { leaseId, items: [...items] }),
      },
    },
    "evals.scored": {
      actions: {
        type: effectAction,
        params: ({ event: { type: _, chunkId, ...body } }) => report("evals.completed", body, chunkId),
      },
    },
    "groups.generated": {
      actions: [
        { type: "untold", params: ({ event }) => ({ id: event.chunkId, by: event.messages }) },
        drop("groups.generated", "late"),
      ],
    },
    "groups.errored": {
      actions: [
        { type: "untold", params: ({ event }) => ({ id: event.chunk.id, by: event.messages + 1 }) },
        { type: effectAction, params: ({ event }) => returned(event.chunk, event.cause, event.failure) },
      ],
    },
  },
  states: {
    weights: {
      description: "Which weights serve.",
      initial: "waiting",
      states: {
        waiting: {
          description: "Serves what it holds. Watched by the heartbeat.",
          on: {
            "weights.pull": [
              {
                guard: "isHeld",
                actions: { type: effectAction, params: ({ context }) => wordOnHeld(context) },
              },
              { guard: "isOlder", actions: drop("weights.pull", "older weights") },
              { target: "syncing", actions: assign(({ event }) => ({ wanted: event.body })) },
            ],
            "weights.pulled": { actions: drop("weights.pulled", "late") },
            "weights.errored": { actions: drop("weights.errored", "late") },
          },
        },
        syncing: {
          description: "Stages a version, verifies it and swaps between chunks.",
          entry: {
            type: effectAction,
            params: ({ event }): RolloutEffect =>
              event.type === "weights.pull" ? { type: "weights.pull", body: event.body } : unreachable,
          },
          on: {
            "weights.pulled": [
              {
                guard: "isWanted",
                target: "waiting",
                actions: [
                  assign(({ context, event }) => heldNow(context, event)),
                  { type: effectAction, params: ({ context }) => wordOnHeld(context) },
                ],
              },
              { actions: drop("weights.pulled", "late") },
            ],
            "weights.errored": [
              {
                guard: "isWanted",
                target: "waiting",
                actions: { type: effectAction, params: ({ context, event }) => failed(context, event.cause) },
              },
              { actions: drop("weights.errored", "late") },
            ],
            "weights.pull": [
              { guard: "isOlder", actions: drop("weights.pull", "older weights") },
              {
                guard: "isAnother",
                target: "syncing",
                reenter: true,
                actions: [
                  { type: effectAction, params: { type: "weights.abort", reason: "another version is wanted" } },
                  assign(({ event }) => ({ wanted: event.body })),
                ],
              },
              { actions: drop("weights.pull", "already pulling it") },
            ],
          },
          after: {
            pull: {
              target: "waiting",
              actions: [
                { type: effectAction, params: { type: "weights.abort", reason: "deadline" } },
                { type: effectAction, params: ({ context }) => failed(context, "not pulled in time") },
              ],
            },
          },
        },
      },
    },
    work: {
      description: "What is being generated.",
      initial: "ready",
      states: {
        ready: {
          description: "Has nothing to generate, or waits until what it did is told. Watched by the heartbeat.",
          always: { guard: "mayBegin", target: "generating" },
        },
        generating: {
          description: "Generates and scores one chunk.",
          entry: [
            assign(({ context: { queue, untold } }) => ({
              current: queue[0] ?? null,
              queue: queue.slice(1),
              untold: countUntold(untold, queue[0]?.id ?? "", 1),
            })),
            {
              type: effectAction,
              params: ({ context }): RolloutEffect =>
                context.current ? { type: "groups.generate", chunk: context.current } : unreachable,
            },
          ],
          on: {
            "groups.generated": {
              guard: "isCurrent",
              target: "ready",
              actions: [
                { type: "untold", params: ({ event }) => ({ id: event.chunkId, by: event.messages }) },
                "leave",
              ],
            },
            "groups.errored": {
              guard: "isCurrentChunk",
              target: "ready",
              actions: [
                { type: "untold", params: ({ event }) => ({ id: event.chunk.id, by: event.messages + 1 }) },
                {
                  type: effectAction,
                  // What can not even be handed back when its time is over must not go round for ever.
                  params: ({ context, event }) =>
                    returned(event.chunk, event.cause, event.failure ?? (context.overdue ? "engine_crash" : null)),
                },
                "leave",
              ],
            },
          },
          after: {
            lease: {
              target: "ready",
              actions: [
                { type: effectAction, params: { type: "groups.abort", reason: "deadline" } },
                {
                  type: effectAction,
                  params: ({ context }) =>
                    context.current ? returned(context.current, "not generated in time", "engine_crash") : unreachable,
                },
                { type: "untold", params: ({ context }) => ({ id: context.current?.id ?? "", by: 1 }) },
                "leave",
              ],
            },
          },
        },
      },
    },
  },
});

// no mutant: any input will do for the actor that is never started
const sample: RolloutInput = { timing: { pullMs: 1, leaseMs: 1 }, chunkGroups: 1, leasesMax: 1 };

/** The machine itself, for diagrams and model tests. */
export const rolloutMachine = machine;

/** A rollout replica as a pure core. */
export const rolloutLogic = logicOf<typeof machine, RolloutEffect>(machine, sample);

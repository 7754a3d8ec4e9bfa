/**
 * A checkpoint actor: pulls a committed version like any receiver, writes it, and says so only when it is durable. Beside that it keeps the
 * training state of the newest steps in memory, for whoever comes when all policy replicas are lost.
 */
import type { Body } from "@muster/protocol";
import { assign, setup } from "xstate";
import { effectAction, logicOf } from "../from-xstate.ts";
import {
  type CommandEvent,
  type DropEffect,
  type RegisteredEvent,
  type ReportEffect,
  report,
} from "../replica-events.ts";
import { isOlder, isSame, type VersionKey } from "../version-key.ts";

type SaveBody = Body<"checkpoint.save">;
type WeightHolding = Body<"weights.held">;

/** What a checkpoint actor asks of its host. */
export type CheckpointEffect =
  | ReportEffect
  | DropEffect
  /** Pull, write, flush, verify; answers `checkpoint.written` or `checkpoint.errored`. */
  | { readonly type: "checkpoint.write"; readonly body: SaveBody }
  | { readonly type: "checkpoint.abort"; readonly reason: string }
  /** Take a version into memory and serve it; answers `weights.pulled` or `weights.errored`. */
  | { readonly type: "weights.pull"; readonly body: Body<"weights.pull"> }
  /** Give the running pull up; its result would be late. */
  | { readonly type: "weights.abort"; readonly reason: string };

/** What a checkpoint actor hears. */
export type CheckpointEvent =
  | CommandEvent<"checkpoint.save" | "weights.pull" | "replica.fenced">
  | RegisteredEvent
  | ({ readonly type: "checkpoint.written" } & Body<"checkpoint.saved">)
  | ({ readonly type: "checkpoint.errored" } & Omit<Body<"checkpoint.failed">, "version"> & Pick<SaveBody, "shards">)
  | ({ readonly type: "shards.written" } & Body<"shards.saved">)
  | ({ readonly type: "weights.pulled" } & WeightHolding)
  | ({ readonly type: "weights.errored" } & Body<"weights.failed">);

/** How long a checkpoint, and a pull into memory, may take. */
export interface CheckpointInput {
  readonly checkpointMs: number;
  readonly pullMs: number;
}

interface Context extends CheckpointInput {
  readonly save: SaveBody | null;
  /** The newest that is in memory, and what is on its way there. */
  readonly held: WeightHolding | null;
  readonly wanted: VersionKey | null;
}

const unreachable: CheckpointEffect = { type: "drop", kind: "entry", reason: "entered without its order" };

type Failure = Pick<Body<"checkpoint.failed">, "cause" | "full" | "shardsMissing">;

const failed = ({ save }: Context, { cause, full, shardsMissing }: Failure): CheckpointEffect =>
  save
    ? report("checkpoint.failed", {
        ...{ step: save.step, lineage: save.lineage, version: save.version, cause },
        ...(full ? { full } : {}),
        ...(shardsMissing ? { shardsMissing } : {}),
      })
    : unreachable;

const kept = ({ held }: Context): CheckpointEffect => (held ? report("weights.held", held) : unreachable);

const notKept = ({ wanted }: Context, why: Omit<Body<"weights.failed">, keyof VersionKey>): CheckpointEffect =>
  wanted ? report("weights.failed", { lineage: wanted.lineage, version: wanted.version, ...why }) : unreachable;

/** Which part of a checkpoint an order is about: to write it whole or to seal it is one for this. */
const partOf = ({ shards }: Pick<SaveBody, "shards">): string => shards?.write.join() ?? "";

const drop = (kind: string, reason: string): { type: "effect"; params: CheckpointEffect } => ({
  type: effectAction,
  params: { type: "drop", kind, reason },
});

const machine = setup({
  types: {} as { context: Context; events: CheckpointEvent; input: CheckpointInput },
  actions: { [effectAction]: (_, _effect: CheckpointEffect) => {} },
  guards: {
    isThis: ({ context: { save }, event }) =>
      "step" in event &&
      event.step === save?.step &&
      event.lineage === save.lineage &&
      partOf("shards" in event ? event : {}) === partOf(save),
    // A new lineage begins at an older step, and shards that somebody else did not finish are of the same one.
    isNewer: ({ context: { save }, event }) =>
      event.type === "checkpoint.save" &&
      (event.body.lineage > (save?.lineage ?? -1) ||
        event.body.step > (save?.step ?? -1) ||
        (event.body.lineage === save?.lineage && event.body.step === save.step && partOf(event.body) !== partOf(save))),
    isHeld: ({ context, event }) => event.type === "weights.pull" && isSame(event.body, context.held),
    isOlder: ({ context, event }) =>
      event.type === "weights.pull" && isOlder(event.body, [context.held, context.wanted]),
    isWanted: ({ context, event }) =>
      (event.type === "weights.pulled" || event.type === "weights.errored") && isSame(event, context.wanted),
    isPulled: ({ context, event }) => event.type === "weights.pull" && isSame(event.body, context.wanted),
  },
  delays: { checkpoint: ({ context }) => context.checkpointMs, pull: ({ context }) => context.pullMs },
}).createMachine({
  id: "checkpoint",
  type: "parallel",
  context: ({ input }) => ({ ...input, save: null, held: null, wanted: null }),
  on: {
    "replica.registered": {
      actions: assign(({ event: { config } }) => ({
        checkpointMs: config.timing.checkpointMs,
        pullMs: config.timing.pullMs,
      })),
    },
    "checkpoint.written": { actions: drop("checkpoint.written", "late") },
    "checkpoint.errored": { actions: drop("checkpoint.errored", "late") },
    "shards.written": { actions: drop("shards.written", "late") },
    "weights.pulled": { actions: drop("weights.pulled", "late") },
    "weights.errored": { actions: drop("weights.errored", "late") },
  },
  states: {
    disk: {
      description: "What is being made durable.",
      initial: "ready",
      states: {
        ready: {
          description: "Waits for the next checkpoint. Watched by the heartbeat.",
          on: { "checkpoint.save": { target: "writing", actions: assign(({ event }) => ({ save: event.body })) } },
        },
        writing: {
          description: "Pulls a version and makes it durable.",
          entry: {
            type: effectAction,
            params: ({ context: { save } }): CheckpointEffect =>
              save ? { type: "checkpoint.write", body: save } : unreachable,
          },
          on: {
            "checkpoint.written": {
              guard: "isThis",
              target: "ready",
              actions: {
                type: effectAction,
                params: ({ event: { type: _, ...body } }) => report("checkpoint.saved", body),
              },
            },
            "shards.written": {
              guard: "isThis",
              target: "ready",
              actions: {
                type: effectAction,
                params: ({ event: { type: _, ...body } }) => report("shards.saved", body),
              },
            },
            "checkpoint.errored": {
              guard: "isThis",
              target: "ready",
              actions: { type: effectAction, params: ({ context, event }) => failed(context, event) },
            },
            "checkpoint.save": [
              {
                guard: "isNewer",
                target: "writing",
                reenter: true,
                actions: [
                  { type: effectAction, params: { type: "checkpoint.abort", reason: "a newer checkpoint is wanted" } },
                  assign(({ event }) => ({ save: event.body })),
                ],
              },
              {
                actions: drop("checkpoint.save", "already writing it"),
              },
            ],
            "replica.fenced": {
              target: "ready",
              actions: { type: effectAction, params: { type: "checkpoint.abort", reason: "fenced" } },
            },
          },
          after: {
            checkpoint: {
              target: "ready",
              actions: [
                { type: effectAction, params: { type: "checkpoint.abort", reason: "deadline" } },
                { type: effectAction, params: ({ context }) => failed(context, { cause: "not written in time" }) },
              ],
            },
          },
        },
      },
    },
    memory: {
      description: "What is being taken into memory.",
      initial: "waiting",
      states: {
        waiting: {
          description: "Serves what it keeps. Watched by the heartbeat.",
          on: {
            "weights.pull": [
              { guard: "isHeld", actions: { type: effectAction, params: ({ context }) => kept(context) } },
              { guard: "isOlder", actions: drop("weights.pull", "older weights") },
              { target: "pulling", actions: assign(({ event }) => ({ wanted: event.body })) },
            ],
          },
        },
        pulling: {
          description: "Takes a version into memory; what is there stays until it is whole and verified.",
          entry: {
            type: effectAction,
            params: ({ event }): CheckpointEffect =>
              event.type === "weights.pull" ? { type: "weights.pull", body: event.body } : unreachable,
          },
          on: {
            "weights.pulled": {
              guard: "isWanted",
              target: "waiting",
              actions: [
                assign(({ event: { type: _, ...held } }) => ({ held, wanted: null })),
                { type: effectAction, params: ({ context }) => kept(context) },
              ],
            },
            "weights.errored": {
              guard: "isWanted",
              target: "waiting",
              actions: [
                {
                  type: effectAction,
                  params: ({ context, event: { type: _, lineage: _l, version: _v, ...why } }) => notKept(context, why),
                },
                assign({ wanted: null }),
              ],
            },
            "weights.pull": [
              { guard: "isOlder", actions: drop("weights.pull", "older weights") },
              { guard: "isPulled", actions: drop("weights.pull", "already pulling it") },
              {
                target: "pulling",
                reenter: true,
                actions: [
                  { type: effectAction, params: { type: "weights.abort", reason: "another version is wanted" } },
                  assign(({ event }) => ({ wanted: event.body })),
                ],
              },
            ],
            "replica.fenced": {
              target: "waiting",
              actions: [
                { type: effectAction, params: { type: "weights.abort", reason: "fenced" } },
                assign({ wanted: null }),
              ],
            },
          },
          after: {
            pull: {
              target: "waiting",
              actions: [
                { type: effectAction, params: { type: "weights.abort", reason: "deadline" } },
                { type: effectAction, params: ({ context }) => notKept(context, { cause: "not pulled in time" }) },
                assign({ wanted: null }),
              ],
            },
          },
        },
      },
    },
  },
});

// no mutant: any input will do for the actor that is never started
const sample: CheckpointInput = { checkpointMs: 1, pullMs: 1 };

/** The machine itself, for diagrams and model tests. */
export const checkpointMachine = machine;

/** A checkpoint actor as a pure core. */
export const checkpointLogic = logicOf<typeof machine, CheckpointEffect>(machine, sample);

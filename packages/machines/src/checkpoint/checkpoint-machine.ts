/** A checkpoint actor: pulls a committed version like any receiver, writes it, and says so only when it is durable. */
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

type SaveBody = Body<"checkpoint.save">;

/** What a checkpoint actor asks of its host. */
export type CheckpointEffect =
  | ReportEffect
  | DropEffect
  /** Pull, write, flush, verify; answers `checkpoint.written` or `checkpoint.errored`. */
  | { readonly type: "checkpoint.write"; readonly body: SaveBody }
  | { readonly type: "checkpoint.abort"; readonly reason: string };

/** What a checkpoint actor hears. */
export type CheckpointEvent =
  | CommandEvent<"checkpoint.save" | "replica.fenced">
  | RegisteredEvent
  | ({ readonly type: "checkpoint.written" } & Body<"checkpoint.saved">)
  | {
      readonly type: "checkpoint.errored";
      readonly step: number;
      readonly lineage: number;
      readonly cause: string;
    };

/** How long a checkpoint may take. */
export interface CheckpointInput {
  readonly checkpointMs: number;
}

interface Context extends CheckpointInput {
  readonly save: SaveBody | null;
}

const failed = (save: SaveBody | null, cause: string): ReportEffect =>
  report("checkpoint.failed", {
    step: save?.step ?? 0,
    lineage: save?.lineage ?? 0,
    version: save?.version ?? 0,
    cause,
  });

const drop = (kind: string, reason: string): { type: "effect"; params: CheckpointEffect } => ({
  type: effectAction,
  params: { type: "drop", kind, reason },
});

const machine = setup({
  types: {} as { context: Context; events: CheckpointEvent; input: CheckpointInput },
  actions: { [effectAction]: (_, _effect: CheckpointEffect) => {} },
  guards: {
    isThis: ({ context, event }) =>
      "step" in event && event.step === context.save?.step && event.lineage === context.save.lineage,
    // A new lineage begins at an older step.
    isNewer: ({ context, event }) =>
      event.type === "checkpoint.save" &&
      (event.body.lineage > (context.save?.lineage ?? -1) || event.body.step > (context.save?.step ?? -1)),
  },
  delays: { checkpoint: ({ context }) => context.checkpointMs },
}).createMachine({
  id: "checkpoint",
  context: ({ input }) => ({ ...input, save: null }),
  on: {
    "replica.registered": { actions: assign(({ event }) => ({ checkpointMs: event.config.timing.checkpointMs })) },
    "checkpoint.written": { actions: drop("checkpoint.written", "late") },
    "checkpoint.errored": { actions: drop("checkpoint.errored", "late") },
  },
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
        params: ({ context }): CheckpointEffect =>
          context.save
            ? { type: "checkpoint.write", body: context.save }
            : { type: "drop", kind: "checkpoint.save", reason: "empty" },
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
        "checkpoint.errored": {
          guard: "isThis",
          target: "ready",
          actions: { type: effectAction, params: ({ context, event }) => failed(context.save, event.cause) },
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
            { type: effectAction, params: ({ context }) => failed(context.save, "not written in time") },
          ],
        },
      },
    },
  },
});

/** The machine itself, for diagrams and model tests. */
export const checkpointMachine = machine;

/** A checkpoint actor as a pure core. */
export const checkpointLogic = logicOf<typeof machine, CheckpointEffect>(machine, { checkpointMs: 1 });

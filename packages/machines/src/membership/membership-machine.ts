/** How a replica of any role comes into the job and goes: register, stay, drain, leave. */
import type { Body, JobConfig } from "@muster/protocol";
import { assign, setup } from "xstate";
import { effectAction, logicOf } from "../from-xstate.ts";
import {
  type CommandEvent,
  type DropEffect,
  type RegisteredEvent,
  type ReportEffect,
  report,
  type StoppingEvent,
} from "../replica-events.ts";

/** Why a replica's life ended. */
export type EndOutcome = "left" | "refused" | "fenced" | "failed";

/** What membership asks of its host besides reports. */
export type MembershipEffect =
  | ReportEffect
  | DropEffect
  /** Bring the engine and the data plane up, as the controller configured them. */
  | { readonly type: "engine.open"; readonly dataKey: Uint8Array; readonly config: JobConfig }
  /** The life of this incarnation is over. */
  | { readonly type: "process.end"; readonly outcome: EndOutcome; readonly reason: string };

/** What membership hears. */
export type MembershipEvent =
  | CommandEvent<"replica.refused" | "replica.fenced" | "replica.stop">
  | RegisteredEvent
  | StoppingEvent
  | { readonly type: "engine.failed"; readonly cause: string };

/** Who this replica is, and how long it waits. */
export interface MembershipInput {
  readonly role: Body<"replica.register">["role"];
  readonly host: string;
  readonly pid: number;
  /** Build of its engine; empty for roles without one. */
  readonly build: string;
  /** Node that started its process; `null` when none did. */
  readonly node: string | null;
  /** Devices that it gives to replicas; absent where it has none. */
  readonly devices?: readonly string[];
  /** Life of a replica of several processes; absent for replicas of one. */
  readonly life?: number;
  readonly timing: {
    readonly registerMs: number;
    readonly gatherMs: number;
    readonly drainMs: number;
  };
}

interface Context extends MembershipInput {
  readonly tries: number;
  readonly reason: string;
}

/** What a replica says of itself when it asks to be admitted. Pure. */
export function registrationOf(input: MembershipInput): Body<"replica.register"> {
  const { role, host, pid, build, node, devices = [], life } = input;
  const given = devices.length === 0 ? {} : { devices: [...devices] };
  return {
    role,
    host,
    pid,
    engineBuild: build,
    ...(node === null ? {} : { node }),
    ...given,
    ...(life === undefined ? {} : { life }),
  };
}

const end = (outcome: EndOutcome, reason: string): MembershipEffect => ({ type: "process.end", outcome, reason });

const machine = setup({
  types: {} as { context: Context; events: MembershipEvent; input: MembershipInput },
  actions: {
    [effectAction]: (_, _effect: MembershipEffect) => {},
    because: assign((_, reason: string) => ({ reason })),
  },
  guards: { mayTryAgain: ({ context }) => context.tries * context.timing.registerMs < context.timing.gatherMs },
  delays: {
    register: ({ context }) => context.timing.registerMs,
    drain: ({ context }) => context.timing.drainMs,
  },
}).createMachine({
  id: "membership",
  context: ({ input }) => ({ ...input, tries: 0, reason: "" }),
  initial: "registering",
  on: {
    "engine.failed": { target: ".failed", actions: { type: "because", params: ({ event }) => event.cause } },
    "replica.stop": { target: ".left", actions: { type: "because", params: ({ event }) => event.body.reason } },
    "replica.fenced": { target: ".fenced", actions: { type: "because", params: ({ event }) => event.body.reason } },
  },
  states: {
    registering: {
      description: "Asks the controller to be admitted, again and again.",
      entry: [
        assign(({ context }) => ({ tries: context.tries + 1 })),
        { type: effectAction, params: ({ context }) => report("replica.register", registrationOf(context)) },
      ],
      on: {
        "replica.registered": {
          target: "member",
          actions: [
            assign(({ context, event }) => ({ timing: { ...context.timing, drainMs: event.config.timing.drainMs } })),
            {
              type: effectAction,
              params: ({ event }) => ({ type: "engine.open", dataKey: event.body.dataKey, config: event.config }),
            },
          ],
        },
        "replica.refused": {
          target: "refused",
          actions: { type: "because", params: ({ event }) => event.body.reason },
        },
        "process.stopping": { target: "left", actions: { type: "because", params: ({ event }) => event.reason } },
      },
      after: {
        register: [
          { guard: "mayTryAgain", target: "registering", reenter: true },
          { target: "failed", actions: { type: "because", params: "no controller answered" } },
        ],
      },
    },
    member: {
      description: "Is a member; the role's own machine works. Watched by the heartbeat.",
      on: {
        "process.stopping": { target: "draining", actions: { type: "because", params: ({ event }) => event.reason } },
      },
    },
    draining: {
      description: "Wants to leave and waits to be released.",
      entry: { type: effectAction, params: ({ context }) => report("replica.draining", { reason: context.reason }) },
      after: { drain: "left" },
    },
    left: {
      type: "final",
      description: "Has left the job.",
      entry: [
        { type: effectAction, params: ({ context }) => report("replica.left", { reason: context.reason }) },
        { type: effectAction, params: ({ context }) => end("left", context.reason) },
      ],
    },
    refused: {
      type: "final",
      description: "Was not admitted.",
      entry: { type: effectAction, params: ({ context }) => end("refused", context.reason) },
    },
    fenced: {
      type: "final",
      description: "Was evicted; comes back as a new incarnation.",
      entry: { type: effectAction, params: ({ context }) => end("fenced", context.reason) },
    },
    failed: {
      type: "final",
      description: "Could not do its work.",
      entry: { type: effectAction, params: ({ context }) => end("failed", context.reason) },
    },
  },
});

const sample: MembershipInput = {
  role: "policy",
  ...{ host: "", build: "", node: null },
  // no mutant: any input will do for the actor that is never started
  ...{ pid: 0, timing: { registerMs: 1, gatherMs: 1, drainMs: 1 } },
};

/** The machine itself, for diagrams and model tests. */
export const membershipMachine = machine;

/** Membership as a pure core. */
export const membershipLogic = logicOf<typeof machine, MembershipEffect>(machine, sample);

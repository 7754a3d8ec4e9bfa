/** What the policy machine may ask of its context and events, and the effects that several of its states emit. */
import { type Body, digestsOf, meshTimesOf } from "@muster/protocol";
import { assign, setup } from "xstate";
import { effectAction } from "../from-xstate.ts";
import { report } from "../replica-events.ts";
import { isOlder, isSame } from "../version-key.ts";
import type { AttemptKey, PolicyContext, PolicyEffect, PolicyEvent, PolicyInput } from "./policy-events.ts";

const sameAttempt = (a: AttemptKey | null, b: AttemptKey): boolean =>
  a !== null && a.step === b.step && a.attempt === b.attempt && a.epoch === b.epoch;

const isLater = (a: AttemptKey | null, b: AttemptKey): boolean =>
  a !== null && (b.step > a.step || (b.step === a.step && b.attempt > a.attempt));

/** The vote that ends an attempt. */
export const abortVote = (
  run: AttemptKey,
  { cause, missing, unreadable = [] }: Omit<Extract<PolicyEvent, { type: "step.errored" }>, "type" | keyof AttemptKey>,
): Body<"step.voted"> => ({
  step: run.step,
  attempt: run.attempt,
  epoch: run.epoch,
  vote: "abort",
  finite: true,
  sections: [],
  cause,
  missing: [...missing],
  ...(unreadable.length > 0 ? { unreadable } : {}),
});

/** The newest epoch was not aborted: a communicator that was is of no use any more. */
const isWhole = (context: Pick<PolicyContext, "build" | "brokenEpoch">): boolean =>
  context.build?.epoch !== context.brokenEpoch;

/** The order is for the mesh and the weights that this replica has. */
const isRunnable = (context: Omit<PolicyContext, "run">, { epoch, lineage, version }: Body<"step.run">): boolean =>
  epoch === context.joinedEpoch &&
  isWhole(context) &&
  version === context.held?.version &&
  lineage === context.held.lineage;

/** Action that drops stale input and counts it. */
export const drop = (kind: string, reason: string): { type: "effect"; params: PolicyEffect } => ({
  type: effectAction,
  params: { type: "drop", kind, reason },
});

/** Action that emits an effect without parameters of its own. */
export const effect = (params: PolicyEffect): { type: "effect"; params: PolicyEffect } => ({
  type: effectAction,
  params,
});

/** An entry that cannot happen says so as a counted drop instead of inventing an order. */
export const unreachable: PolicyEffect = { type: "drop", kind: "entry", reason: "entered without its order" };

/** What an action sees; it is given the context as the actions before it left it. */
interface ActionArgs<Event = unknown> {
  readonly context: PolicyContext;
  readonly event: Event;
}

/** Action that says which version is live. */
export const sayHeld = {
  type: effectAction,
  params: ({ context }: ActionArgs): PolicyEffect =>
    context.held ? report("weights.held", context.held) : unreachable,
} as const;

/** Action that says that the joined mesh stands. */
export const sayJoined = {
  type: effectAction,
  params: ({ context: { joinedEpoch: epoch, engine } }: ActionArgs): PolicyEffect =>
    report("mesh.built", { epoch, ...(engine ? { engine } : {}) }),
} as const;

type Failure = Pick<Body<"weights.failed">, "cause" | "damage">;

const wantedFailed = ({ wanted }: PolicyContext, { cause, damage }: Failure): PolicyEffect =>
  wanted
    ? report("weights.failed", {
        ...{ lineage: wanted.lineage, version: wanted.version, cause },
        ...(damage ? { damage } : {}),
      })
    : unreachable;

/** Action that says why the wanted version could not be had. */
export const sayFailed = {
  type: effectAction,
  params: ({ context, event }: ActionArgs<Failure>): PolicyEffect => wantedFailed(context, event),
} as const;

/** Action that says that the wanted version was not there at the deadline. */
export const sayLate = {
  type: effectAction,
  params: ({ context }: ActionArgs): PolicyEffect => wantedFailed(context, { cause: "not there in time" }),
} as const;

/** Guards, delays and actions of the policy machine. */
export const policySetup = setup({
  types: {} as { context: PolicyContext; events: PolicyEvent; input: PolicyInput },
  actions: {
    [effectAction]: (_, _effect: PolicyEffect) => {},
    remember: assign((_, patch: Partial<PolicyContext>) => patch),
    want: assign(({ event }) =>
      event.type === "weights.pull" || event.type === "weights.initialize" ? { wanted: event.body } : {},
    ),
    takeRun: assign(({ event }) => (event.type === "step.run" ? { run: event.body, vote: null } : {})),
    takeBuild: assign(({ event }) => (event.type === "mesh.build" ? { build: event.body } : {})),
    breakMesh: assign(({ context: { build, brokenEpoch } }) => ({ brokenEpoch: build?.epoch ?? brokenEpoch })),
  },
  guards: {
    isNewerEpoch: ({ context, event }) => event.type === "mesh.build" && event.body.epoch > (context.build?.epoch ?? 0),
    isJoinedEpoch: ({ context, event }) =>
      event.type === "mesh.build" && event.body.epoch === context.joinedEpoch && isWhole(context),
    isThisEpoch: ({ context, event }) => "epoch" in event && event.epoch === context.build?.epoch,
    isThisAttempt: ({ context, event }) => "attempt" in event && sameAttempt(context.run, event),
    isOrderedAttempt: ({ context, event }) =>
      (event.type === "step.run" || event.type === "step.discard") && sameAttempt(context.run, event.body),
    isMyVote: ({ context, event }) =>
      event.type === "step.apply" &&
      sameAttempt(context.run, event.body) &&
      digestsOf(event.body.sections) === digestsOf(context.vote?.sections ?? []),
    isMyCommit: ({ context, event }) =>
      event.type === "step.promoted" &&
      event.lineage === context.run?.lineage &&
      event.version === context.run.version + 1,
    isHeld: ({ context, event }) =>
      (event.type === "step.apply" ||
        event.type === "weights.pull" ||
        event.type === "weights.publish" ||
        event.type === "weights.initialize") &&
      isSame(event.body, context.held),
    isStillHeld: ({ context, event }) => event.type === "weights.published" && isSame(event, context.held),
    isOlder: ({ context, event }) =>
      (event.type === "weights.pull" || event.type === "weights.initialize") &&
      isOlder(event.body, [context.held, context.wanted]),
    isNewerVersion: ({ context, event }) =>
      event.type === "weights.pull" &&
      event.body.lineage === context.held?.lineage &&
      event.body.version > context.held.version,
    isNewLineage: ({ context, event }) =>
      (event.type === "weights.pull" || event.type === "weights.initialize") &&
      event.body.lineage > (context.held?.lineage ?? event.body.lineage),
    isRunnable: ({ context, event }) => event.type === "step.run" && isRunnable(context, event.body),
    isNextAttempt: ({ context, event }) =>
      event.type === "step.run" && isLater(context.run, event.body) && isRunnable(context, event.body),
    isAnother: ({ context, event }) =>
      (event.type === "weights.pull" || event.type === "weights.initialize") &&
      (event.body.version !== context.wanted?.version || event.body.lineage !== context.wanted.lineage),
    isWanted: ({ context, event }) =>
      "version" in event && event.version === context.wanted?.version && event.lineage === context.wanted.lineage,
    hasNewMesh: ({ context }) =>
      isWhole(context) && context.build !== null && context.build.epoch > context.joinedEpoch,
    hasMesh: ({ context }) => isWhole(context) && context.build?.epoch === context.joinedEpoch,
  },
  delays: {
    initialize: ({ context }) => context.timing.initializeMs,
    pull: ({ context }) => context.timing.pullMs,
    mesh: ({ context }) => meshTimesOf(context.timing.meshMs).memberMs,
    step: ({ context }) => context.timing.stepMs,
    command: ({ context }) => context.timing.commandMs,
  },
});

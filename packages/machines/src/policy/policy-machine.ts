/**
 * A policy replica: holds weights, computes steps on a candidate beside them, votes, and makes the candidate live only when the
 * commit is in the journal (semantics 6.1, 6.2; "commit before apply").
 */
import { assign } from "xstate";
import { effectAction, logicOf } from "../from-xstate.ts";
import { report } from "../replica-events.ts";
import { type PolicyEffect, type PolicyInput, policyInputOf } from "./policy-events.ts";
import {
  abortVote,
  drop,
  effect,
  policySetup,
  sayFailed,
  sayHeld,
  sayJoined,
  sayLate,
  unreachable,
} from "./policy-setup.ts";

const abandonWeights = effect({ type: "weights.abort", reason: "other weights are wanted" });
/** An order that comes again after newer ones. */
const olderPull = { guard: "isOlder", actions: drop("weights.pull", "older weights") } as const;
const olderInitialize = { guard: "isOlder", actions: drop("weights.initialize", "older weights") } as const;
const forgetAttempt = [
  effect({ type: "step.discard" }),
  { type: "remember", params: { run: null, vote: null } },
] as const;
const leaveMesh = effect({ type: "mesh.abort", reason: "other weights are wanted first" });
/** After a step back nobody decides on the running attempt any more. */
const otherLineage = <const T extends "syncing" | "initializing">(target: T) =>
  ({ guard: "isNewLineage", target, actions: [...forgetAttempt, leaveMesh, "breakMesh", "want"] }) as const;

const machine = policySetup.createMachine({
  id: "policy",
  context: ({ input }) => ({
    ...input,
    held: null,
    build: null,
    joinedEpoch: 0,
    brokenEpoch: 0,
    run: null,
    vote: null,
    wanted: null,
  }),
  initial: "waiting",
  // What any state answers unless it knows better: repeated orders get their answer again, stale ones are dropped and counted.
  on: {
    "replica.registered": { actions: assign(({ event }) => policyInputOf(event.config)) },
    "mesh.build": [
      { guard: "isNewerEpoch", actions: "takeBuild" },
      { guard: "isJoinedEpoch", actions: sayJoined },
      { actions: drop("mesh.build", "old epoch") },
    ],
    "step.run": { actions: drop("step.run", "not the mesh or the version that this replica has") },
    "step.discard": { actions: drop("step.discard", "no such attempt") },
    "step.apply": [{ guard: "isHeld", actions: sayHeld }, { actions: drop("step.apply", "no such candidate") }],
    "weights.pull": [{ guard: "isHeld", actions: sayHeld }, olderPull, { target: ".syncing", actions: "want" }],
    "weights.initialize": [
      { guard: "isHeld", actions: sayHeld },
      olderInitialize,
      { target: ".initializing", actions: "want" },
    ],
    // The engine publishes when it is its turn, so what a replica does goes on meanwhile.
    "weights.publish": [
      {
        guard: "isHeld",
        actions: { type: effectAction, params: ({ event }) => ({ type: "weights.publish", body: event.body }) },
      },
      { actions: drop("weights.publish", "other weights") },
    ],
    "weights.published": [
      {
        guard: "isStillHeld",
        actions: [assign(({ event: { type: _, ...held } }) => ({ held })), sayHeld],
      },
      { actions: drop("weights.published", "late") },
    ],
    "weights.unpublished": {
      actions: {
        type: effectAction,
        params: ({ event: { type: _, ...failure } }) => report("weights.failed", failure),
      },
    },
    "weights.initialized": { actions: drop("weights.initialized", "late") },
    "weights.pulled": { actions: drop("weights.pulled", "late") },
    "weights.errored": { actions: drop("weights.errored", "late") },
    "mesh.joined": { actions: drop("mesh.joined", "late") },
    "mesh.errored": { actions: drop("mesh.errored", "late") },
    "step.computed": { actions: drop("step.computed", "late") },
    "step.errored": { actions: drop("step.errored", "late") },
    "step.promoted": { actions: drop("step.promoted", "late") },
  },
  states: {
    settling: {
      description: "Chooses where to go on after weights changed.",
      always: [
        { guard: "hasNewMesh", target: "building" },
        { guard: "hasMesh", target: "ready" },
        { target: "waiting" },
      ],
    },
    waiting: {
      description: "Has no usable mesh. Watched by the heartbeat.",
      on: {
        "mesh.build": [
          { guard: "isNewerEpoch", target: "building", actions: "takeBuild" },
          { actions: drop("mesh.build", "old epoch") },
        ],
      },
    },
    initializing: {
      description: "Makes or loads the weights of a lineage.",
      entry: {
        type: effectAction,
        params: ({ event }): PolicyEffect =>
          event.type === "weights.initialize" ? { type: "weights.initialize", body: event.body } : unreachable,
      },
      on: {
        "weights.initialized": {
          guard: "isWanted",
          target: "settling",
          actions: [
            assign(({ event: { type: _, meta: __, ...held } }) => ({ held, wanted: null })),
            { type: effectAction, params: ({ event }) => report("weights.meta", event.meta) },
            sayHeld,
          ],
        },
        "weights.initialize": [
          olderInitialize,
          { guard: "isAnother", target: "initializing", reenter: true, actions: [abandonWeights, "want"] },
          { actions: drop("weights.initialize", "already making them") },
        ],
        "weights.pull": [olderPull, { target: "syncing", actions: [abandonWeights, "want"] }],
        "weights.errored": {
          guard: "isWanted",
          target: "settling",
          actions: sayFailed,
        },
      },
      after: {
        initialize: {
          target: "settling",
          actions: sayLate,
        },
      },
    },
    syncing: {
      description: "Pulls weights and optimizer state from a holder.",
      entry: {
        type: effectAction,
        params: ({ event }): PolicyEffect =>
          event.type === "weights.pull" ? { type: "weights.pull", body: event.body } : unreachable,
      },
      on: {
        "weights.pulled": {
          guard: "isWanted",
          target: "settling",
          actions: [assign(({ event: { type: _, ...held } }) => ({ held, wanted: null })), sayHeld],
        },
        "weights.pull": [
          olderPull,
          { guard: "isAnother", target: "syncing", reenter: true, actions: [abandonWeights, "want"] },
          { actions: drop("weights.pull", "already pulling it") },
        ],
        "weights.initialize": [olderInitialize, { target: "initializing", actions: [abandonWeights, "want"] }],
        "weights.errored": {
          guard: "isWanted",
          target: "settling",
          actions: sayFailed,
        },
      },
      after: {
        pull: {
          target: "settling",
          actions: [effect({ type: "weights.abort", reason: "deadline" }), sayLate],
        },
      },
    },
    building: {
      description: "Joins the communicator of the newest epoch.",
      entry: {
        type: effectAction,
        params: ({ context }): PolicyEffect =>
          context.build ? { type: "mesh.open", body: context.build } : unreachable,
      },
      on: {
        "mesh.joined": {
          guard: "isThisEpoch",
          target: "ready",
          actions: [
            assign(({ event: { epoch, engine } }) => ({ joinedEpoch: epoch, ...(engine ? { engine } : {}) })),
            sayJoined,
          ],
        },
        "weights.pull": [olderPull, { target: "syncing", actions: [leaveMesh, "breakMesh", "want"] }],
        "weights.initialize": [olderInitialize, { target: "initializing", actions: [leaveMesh, "breakMesh", "want"] }],
        "mesh.errored": {
          guard: "isThisEpoch",
          target: "waiting",
          actions: [
            "breakMesh",
            {
              type: effectAction,
              params: ({ event }) =>
                report("mesh.failed", { epoch: event.epoch, cause: event.cause, missing: [...event.missing] }),
            },
          ],
        },
        "mesh.build": [
          {
            guard: "isNewerEpoch",
            target: "building",
            reenter: true,
            actions: [effect({ type: "mesh.abort", reason: "a newer epoch" }), "takeBuild"],
          },
          { actions: drop("mesh.build", "old epoch") },
        ],
      },
      after: {
        mesh: {
          target: "waiting",
          actions: [
            effect({ type: "mesh.abort", reason: "deadline" }),
            "breakMesh",
            {
              type: effectAction,
              params: ({ context: { build } }) =>
                build
                  ? report("mesh.failed", { epoch: build.epoch, cause: "not joined in time", missing: [] })
                  : unreachable,
            },
          ],
        },
      },
    },
    ready: {
      description: "Is a rank of the mesh and waits for a step. Watched by the heartbeat.",
      on: {
        "step.run": [
          {
            guard: "isRunnable",
            target: "computing",
            actions: "takeRun",
          },
          { actions: drop("step.run", "not the mesh or the version that this replica has") },
        ],
        "mesh.build": [
          { guard: "isNewerEpoch", target: "building", actions: "takeBuild" },
          { guard: "isJoinedEpoch", actions: sayJoined },
          { actions: drop("mesh.build", "old epoch") },
        ],
      },
    },
    computing: {
      description: "Accumulates gradients, reduces them with the mesh and stages the candidate.",
      entry: {
        type: effectAction,
        params: ({ context }): PolicyEffect =>
          context.run ? { type: "step.compute", body: context.run } : unreachable,
      },
      on: {
        "weights.pull": [otherLineage("syncing"), { actions: drop("weights.pull", "busy") }],
        "weights.initialize": [otherLineage("initializing"), { actions: drop("weights.initialize", "busy") }],
        "step.computed": {
          guard: "isThisAttempt",
          target: "voted",
          actions: assign(({ event: { type: _, ...result } }) => ({ vote: { ...result, vote: "commit" as const } })),
        },
        "step.errored": {
          guard: "isThisAttempt",
          target: "voted",
          actions: ["breakMesh", assign(({ event }) => ({ vote: abortVote(event, event) }))],
        },
        "step.run": { guard: "isOrderedAttempt", actions: [] },
        "step.discard": {
          guard: "isOrderedAttempt",
          target: "waiting",
          actions: [
            effect({ type: "mesh.abort", reason: "the attempt is given up" }),
            effect({ type: "step.discard" }),
            "breakMesh",
            { type: "remember", params: { run: null } },
          ],
        },
        "mesh.build": [
          {
            guard: "isNewerEpoch",
            target: "building",
            actions: [
              effect({ type: "mesh.abort", reason: "a newer epoch" }),
              effect({ type: "step.discard" }),
              assign(({ event }) => ({ build: event.body, run: null })),
            ],
          },
          { actions: drop("mesh.build", "old epoch") },
        ],
      },
      after: {
        step: {
          target: "voted",
          actions: [
            effect({ type: "mesh.abort", reason: "deadline" }),
            "breakMesh",
            assign(({ context }) => ({
              vote: context.run && abortVote(context.run, { cause: "the step was not computed in time", missing: [] }),
            })),
          ],
        },
      },
    },
    voted: {
      description: "Has voted and waits for the outcome; says its vote again when nothing comes.",
      entry: {
        type: effectAction,
        params: ({ context }): PolicyEffect => (context.vote ? report("step.voted", context.vote) : unreachable),
      },
      on: {
        // Whoever decided has gone on, so this candidate is discarded: a controller may end before it can say so.
        "weights.pull": [
          otherLineage("syncing"),
          { guard: "isNewerVersion", target: "syncing", actions: [...forgetAttempt, "want"] },
          { actions: drop("weights.pull", "busy") },
        ],
        "weights.initialize": [otherLineage("initializing"), { actions: drop("weights.initialize", "busy") }],
        "step.apply": [
          { guard: "isMyVote", target: "applying" },
          { guard: "isHeld", actions: sayHeld },
          { actions: drop("step.apply", "not the candidate of this replica") },
        ],
        "step.run": [
          { guard: "isOrderedAttempt", target: "voted", reenter: true },
          { guard: "isNextAttempt", target: "computing", actions: [effect({ type: "step.discard" }), "takeRun"] },
          { actions: drop("step.run", "not the mesh or the version that this replica has") },
        ],
        "step.discard": {
          guard: "isOrderedAttempt",
          target: "settling",
          actions: [effect({ type: "step.discard" }), { type: "remember", params: { run: null, vote: null } }],
        },
        "mesh.build": [
          {
            guard: "isNewerEpoch",
            target: "building",
            actions: [
              effect({ type: "step.discard" }),
              assign(({ event }) => ({ build: event.body, run: null, vote: null })),
            ],
          },
          { actions: drop("mesh.build", "old epoch") },
        ],
      },
      after: { step: { target: "voted", reenter: true } },
    },
    applying: {
      description: "Makes the committed candidate live and serves it to pullers.",
      entry: {
        type: effectAction,
        params: ({ event }): PolicyEffect =>
          event.type === "step.apply" ? { type: "step.promote", body: event.body } : unreachable,
      },
      on: {
        "weights.pull": { actions: drop("weights.pull", "busy") },
        "weights.initialize": { actions: drop("weights.initialize", "busy") },
        "step.apply": { guard: "isMyVote", actions: [] },
        "step.promoted": {
          guard: "isMyCommit",
          target: "settling",
          actions: [assign(({ event: { type: _, ...held } }) => ({ held, run: null, vote: null })), sayHeld],
        },
      },
      after: {
        command: {
          target: "settling",
          actions: [
            {
              type: effectAction,
              params: ({ context: { run } }) =>
                run
                  ? report("weights.failed", {
                      ...{ lineage: run.lineage, version: run.version + 1, cause: "not promoted in time" },
                    })
                  : unreachable,
            },
            { type: "remember", params: { held: null, run: null, vote: null } },
          ],
        },
      },
    },
  },
});

// no mutant: any input will do for the actor that is never started
const sample: PolicyInput = { timing: { initializeMs: 1, pullMs: 1, meshMs: 1, stepMs: 1, commandMs: 1 } };

/** The machine itself, for diagrams and model tests. */
export const policyMachine = machine;

/** A policy replica as a pure core. */
export const policyLogic = logicOf<typeof machine, PolicyEffect>(machine, sample);

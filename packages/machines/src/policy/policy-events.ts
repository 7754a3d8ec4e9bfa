/** What a policy replica hears, asks of its host, and remembers. */
import type { Body, JobConfig } from "@muster/protocol";
import type { CommandEvent, DropEffect, RegisteredEvent, ReportEffect } from "../replica-events.ts";

type WeightHolding = Body<"weights.held">;

/** Which attempt of which step, in which epoch. */
export interface AttemptKey {
  readonly step: number;
  readonly attempt: number;
  readonly epoch: number;
}

/** What a policy replica asks of its host. */
export type PolicyEffect =
  | ReportEffect
  | DropEffect
  /** Make or load weights; answers `weights.initialized` or `weights.errored`. */
  | { readonly type: "weights.initialize"; readonly body: Body<"weights.initialize"> }
  /** Pull, verify, swap; answers `weights.pulled` or `weights.errored`. */
  | { readonly type: "weights.pull"; readonly body: Body<"weights.pull"> }
  /** Publish a part of the live version; answers `weights.published` or `weights.unpublished`. */
  | { readonly type: "weights.publish"; readonly body: Body<"weights.publish"> }
  /** Give the running pull up; its result would be late. */
  | { readonly type: "weights.abort"; readonly reason: string }
  /** Leave the old communicator and join this epoch's; answers `mesh.joined` or `mesh.errored`. */
  | { readonly type: "mesh.open"; readonly body: Body<"mesh.build"> }
  /** Abort whatever runs on the communicator; it cannot be used again. */
  | { readonly type: "mesh.abort"; readonly reason: string }
  /** Compute the candidate; answers `step.computed` or `step.errored`. */
  | { readonly type: "step.compute"; readonly body: Body<"step.run"> }
  /** Make the candidate live and serve it; answers `step.promoted`. */
  | { readonly type: "step.promote"; readonly body: Body<"step.apply"> }
  | { readonly type: "step.discard" };

/** What a policy replica hears. */
export type PolicyEvent =
  | CommandEvent<"weights.initialize" | "weights.pull" | "weights.publish">
  | CommandEvent<"mesh.build" | "step.run" | "step.apply" | "step.discard">
  | RegisteredEvent
  | ({ readonly type: "weights.initialized"; readonly meta: Body<"weights.meta"> } & WeightHolding)
  | ({ readonly type: "weights.pulled" } & WeightHolding)
  | ({ readonly type: "weights.errored" } & Body<"weights.failed">)
  | ({ readonly type: "weights.published" } & WeightHolding)
  | ({ readonly type: "weights.unpublished" } & Pick<Body<"weights.failed">, "lineage" | "version" | "cause">)
  | ({ readonly type: "mesh.joined" } & Body<"mesh.built">)
  | {
      readonly type: "mesh.errored";
      readonly epoch: number;
      readonly cause: string;
      readonly missing: readonly string[];
    }
  | ({ readonly type: "step.computed" } & AttemptKey &
      Required<Pick<Body<"step.voted">, "finite" | "sections" | "stats">> &
      Pick<Body<"step.voted">, "sketch">)
  | ({
      readonly type: "step.errored";
      readonly cause: string;
      readonly missing: readonly string[];
      readonly unreadable?: Body<"step.voted">["unreadable"];
    } & AttemptKey)
  | ({ readonly type: "step.promoted" } & WeightHolding);

/** How long a policy replica waits. */
export interface PolicyInput {
  readonly timing: {
    readonly initializeMs: number;
    readonly pullMs: number;
    readonly meshMs: number;
    readonly stepMs: number;
    readonly commandMs: number;
  };
}

/** What a policy replica remembers; plain JSON. */
export interface PolicyContext extends PolicyInput {
  /** The version whose bytes are live. */
  readonly held: WeightHolding | null;
  /** The newest mesh it was told of, and the newest it joined. */
  readonly build: Body<"mesh.build"> | null;
  readonly joinedEpoch: number;
  /** What is said of the engine in the handshake of a mesh; absent where it says nothing. */
  readonly engine?: Body<"mesh.built">["engine"];
  /** The newest epoch whose communicator was aborted. */
  readonly brokenEpoch: number;
  readonly run: Body<"step.run"> | null;
  readonly vote: Body<"step.voted"> | null;
  /** What is being initialised or pulled. */
  readonly wanted: { readonly lineage: number; readonly version: number } | null;
}

/** What a policy replica takes from the job's configuration. Pure. */
export function policyInputOf(config: Pick<JobConfig, "timing">): PolicyInput {
  const { gatherMs, pullMs, meshMs, stepMs, commandMs } = config.timing;
  return { timing: { initializeMs: gatherMs, pullMs, meshMs, stepMs, commandMs } };
}

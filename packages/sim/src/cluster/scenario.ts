/** What one run is: a job, how long work takes in it, and what goes wrong. Plain data; the same scenario gives the same run. */
import type { JobConfig } from "@muster/protocol";
import type { StreamBytes } from "@muster/transport";
import type { Fault } from "../faults/fault.ts";
import type { FleetShape } from "../fleet/command.ts";
import type { ScriptShape } from "../scripts/script-shape.ts";

/** How long work takes, in virtual ms, and what is wrong with it in every run alike. */
export interface WorkModel {
  readonly initializeMs: number;
  readonly shardMs: number;
  readonly stageMs: number;
  /** Mean of the time of one response; heavy-tailed. */
  readonly responseMs: number;
  readonly swapMs: number;
  readonly judgeMs: number;
  /** Share of responses that cannot be judged. */
  readonly poisonRate: number;
  /** Share of samples whose gradient is not finite. */
  readonly overflowRate: number;
  /** Share of prompts that end the process of whoever generates them. */
  readonly killerRate: number;
  /** Share of prompts that hang whoever generates them; none when it is left out. */
  readonly hangerRate?: number;
  /** Share of samples that end the process of whoever trains on them; none when it is left out. */
  readonly trainerKillerRate?: number;
  /** Share of the candidates in which a trainer has other bits than the others, by its own arithmetic; none when it is left out. */
  readonly driftRate?: number;
  /** Memory that checkpoint actors find available; more than enough when it is left out. */
  readonly memoryBytes?: number;
}

/** One run. */
export interface Scenario {
  readonly seed: number;
  readonly profile: string;
  readonly config: JobConfig;
  readonly work: WorkModel;
  /**
   * Controllers that the supervisor keeps alive while there are faults; default 1. Each of several believes that it leads: whoever is
   * fenced comes back and takes the job again.
   */
  readonly controllers?: number;
  /** Nodes that run the replicas; without them each replica has a supervisor of its own. */
  readonly fleet?: FleetShape;
  /** A script that waits at barriers beside the job. */
  readonly script?: ScriptShape;
  readonly faults: readonly Fault[];
  /** Bytes that streams of the broker may hold, where it is not what production's do. */
  readonly bytesMax?: StreamBytes;
  /** Most bytes of a snapshot of the journal in one record. */
  readonly recordBytes: number;
  /** Faults end here; from then on the job must get on. */
  readonly safetyMs: number;
  /** The job must have ended by then. */
  readonly limitMs: number;
}

/** Bytes of the largest record that the broker takes: a third more than a record is to have, as in production. Pure. */
export function recordMaxOf({ recordBytes }: Pick<Scenario, "recordBytes">): number {
  return Math.ceil((recordBytes * 4) / 3);
}

/**
 * Age from which a leftover of a checkpoint is swept, ms: longer than any write, as in production, and short enough that jobs of minutes come to it. Pure.
 */
export function graceMsOf({ config: { timing } }: Pick<Scenario, "config">): number {
  return 3 * timing.checkpointMs;
}

/** Most bytes of a section in one array: where checkpoints matter so few that each section has several pieces. Pure. */
export function pieceMaxOf({ profile }: Pick<Scenario, "profile">): number {
  return profile === "storage" ? 64 : Number.MAX_SAFE_INTEGER;
}

/** Where checkpoints count on several hosts only, the lives of a checkpoint actor are on one host, and the actors on different ones. Pure. */
export function diskHostOf({ config }: Scenario, id: string): string | undefined {
  const { quorum = 1 } = config.checkpoint;
  const [, index] = quorum > 1 ? (/^checkpoint-(\d+)$/.exec(id) ?? []) : [];
  return index && `host-${Number(index) % 3}`;
}

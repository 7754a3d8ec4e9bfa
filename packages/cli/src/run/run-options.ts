/** What a run is made from, and how it ends. */
import type { Body, JobConfig } from "@muster/protocol";
import type { ExitCode, LogLevel } from "@muster/runtime";
import type { MasterPlan } from "../multinode/launch.ts";
import type { Progress, RunRecord } from "../report/index.ts";
import type { PhaseOptions } from "./phase-keeper.ts";
import type { Change } from "./resumed.ts";

/** What a run is made from. */
export interface RunOptions {
  readonly config: JobConfig;
  readonly configText: string;
  readonly runs: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly logLevel: LogLevel;
  /** Devices of each node that runs replicas, all of them on this host. */
  readonly nodes: readonly (readonly string[])[];
  /** What a job of several hosts has besides; `null` for a job of this host alone. */
  readonly master: MasterPlan | null;
  /** Where the controller serves its metrics; `null` for nowhere. */
  readonly metricsPort: number | null;
  /** One acts, the others stand by. */
  readonly controllers: number;
  /** Port of the run's own broker; `null` for the one of before, or any free one. */
  readonly port: number | null;
  /** Address of the broker for the actors, where it is not the broker's own, e.g. that of a proxy; `null` for its own. */
  readonly advertisedUrl: string | null;
  /** Bytes that each of its files of events, commands and metrics may take. */
  readonly historyBytes: number;
  /** The operator says that the broker's store is lost for good: the job goes on from its newest checkpoint. */
  readonly isStoreLost: boolean;
  /** The step with which the job was over, where it goes on with more steps; `null` where it was not. */
  readonly prolongedAfter: number | null;
  /** The command that goes on with this run. */
  readonly resume: string;
  /** Settings that change when it goes on; `null` for none. */
  readonly change: Change | null;
  /** What this command does of the job, and with which files. */
  readonly phase: PhaseOptions;
  readonly progress: Progress;
  /** Aborted by the first Ctrl-C. */
  readonly interrupted: AbortSignal;
}

/** How a run ended. */
export interface RunEnd {
  readonly exitCode: ExitCode;
  readonly outcome: Body<"job.ended">["outcome"] | "interrupted";
  readonly reason: string;
  readonly directory: string;
  readonly record: RunRecord;
}

/** Why a run ends. */
export interface RunOver extends Pick<RunEnd, "outcome" | "reason"> {
  /** What this command was to do is done; the job is not over. */
  readonly isPhaseOver?: true;
}

/** One job, as a program sees it from outside. */
import { randomBytes } from "node:crypto";
import {
  type Body,
  type CommandKind,
  createEnveloper,
  decodeStatus,
  type JobStatus,
  statusKey,
} from "@muster/protocol";
import { type Credentials, connectNats, type Subscription, type Transport } from "@muster/transport";
import { type Ask, ask, type CommandEnd, endOfCommand } from "./ask.ts";
import { Arrivals, type BarrierAnswer } from "./barriers.ts";
import { type FollowOptions, follow } from "./follow.ts";

/** The status with its age at the time of reading. */
export type SeenStatus = JobStatus & { readonly ageMs: number };

/** Beyond this age of the status the controller does not write it any more: it does so once a second. */
export const statusAgeMaxMs = 5_000;

/** How to wait for a command. */
export interface CommandWait {
  readonly timeoutMs: number;
  /** What is waited for. Default `done`. */
  readonly until?: "accepted" | "done";
  readonly signal?: AbortSignal;
}

/** The way to one job. */
export interface JobClient {
  readonly job: string;
  /** What the controller shows of its job; `null` when none has shown anything yet. @throws MUSTER_ERR_STATUS_UNREADABLE */
  status(): Promise<SeenStatus | null>;
  /** Follows the public events until closed, across outages of the broker. */
  follow(options: FollowOptions): Promise<Subscription>;
  /**
   * Sends a request to the controller and waits for the event that answers it.
   *
   * @returns The answer, or `null` when none came in time; the request is stored all the same, and a later controller will see it.
   * @throws MUSTER_ERR_REQUEST_REFUSED when the controller does not take the message; the reason of `signal` when it is aborted.
   */
  ask<K extends CommandKind, T>(request: Ask<K, T>): Promise<T | null>;
  /** Gives a command, under a new id unless its body has one, and waits for what becomes of it: as {@link ask}. */
  command<K extends CommandKind>(kind: K, body: Body<K>, wait: CommandWait): Promise<CommandEnd | null>;
  /**
   * Arrives at a barrier and waits for its end. To arrive again is harmless: who was there before hears how it ended, or waits on.
   *
   * @returns How it ended, or why the arrival was refused; `null` when neither came in time.
   */
  arrive(arrival: Body<"barrier.arrived">, wait: Omit<CommandWait, "until">): Promise<BarrierAnswer | null>;
  /** Calls `listener` when the broker goes away and comes back. @returns Stops the calls. */
  onConnection(listener: (isConnected: boolean) => void): () => void;
  close(): Promise<void>;
}

/** How to reach a job: what `muster credentials operator` writes, or `muster credentials script`, with which only {@link JobClient.arrive} is allowed. */
export interface ConnectJobOptions {
  readonly url: string;
  readonly job: string;
  readonly credentials: Credentials;
  /** Under which name commands are given; default the one that the credentials are for, `muster` when they fit any. */
  readonly id?: string;
  /** Default 3 s. */
  readonly connectTimeoutMs?: number;
}

const idDefault = "muster";

/** Connects to a job. @throws MUSTER_ERR_BROKER_UNREACHABLE, MUSTER_ERR_BROKER_AUTH, MUSTER_ERR_ID_INVALID */
export async function connectJob(options: ConnectJobOptions): Promise<JobClient> {
  const { url, job, credentials, id = credentials.replica?.id ?? idDefault, connectTimeoutMs = 3_000 } = options;
  const incarnation = `i${randomBytes(6).toString("hex")}`;
  const isScript = credentials.user === "script";
  const name = `${isScript ? "script" : "operator"}.${id}.${incarnation}`;
  const transport = await connectNats({ url, job, credentials, name, connectTimeoutMs });
  return clientOf(transport, { id, incarnation, isScript });
}

/** A client over a connection that there is already; closing the one closes the other. */
export function clientOf(
  transport: Transport,
  {
    id = idDefault,
    incarnation,
    isScript = false,
  }: { readonly id?: string; readonly incarnation: string; readonly isScript?: boolean },
): JobClient {
  const { job } = transport;
  const enveloper = createEnveloper({ job, id, role: "operator", incarnation, wallMs: Date.now });
  const arrivals = new Arrivals(transport, enveloper, isScript);
  return {
    job,
    async status() {
      const entry = await transport.state().get(statusKey);
      if (!entry) return null;
      const status = decodeStatus(entry.value, job);
      return { ...status, ageMs: Math.max(0, Date.now() - status.atMs) };
    },
    follow: (options) => follow(transport, options),
    ask: (request) => ask(transport, enveloper, request),
    command(kind, body, { timeoutMs, until = "done", signal }) {
      const commandId = body.commandId ?? `c-${randomBytes(6).toString("hex")}`;
      return ask(transport, enveloper, {
        kind,
        body: { ...body, commandId },
        fromSeq: "new",
        answer: (event) => endOfCommand(event, commandId, until === "accepted"),
        timeoutMs,
        ...(signal ? { signal } : {}),
      });
    },
    arrive: (arrival, wait) => arrivals.arrive(arrival, wait),
    onConnection: (listener) =>
      transport.onStatus(({ type }) => {
        if (type === "disconnected" || type === "reconnected") listener(type === "reconnected");
      }),
    async close() {
      await arrivals.close();
      await transport.close();
    },
  };
}

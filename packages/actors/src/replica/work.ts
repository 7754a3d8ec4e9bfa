/** What a role adds to a replica: its machine, and the handlers of that machine's effects. */
import { type Clock, hasCode, withDeadline } from "@muster/base";
import type { DropEffect, EndOutcome, Logic, ReportEffect, TimerEffect } from "@muster/machines";
import type { Enveloper, Identity, JobConfig, MemberRole } from "@muster/protocol";
import type { EffectHandler, EffectHandlers, HostTools, Outbox, Typed } from "@muster/runtime";
import type { Transport } from "@muster/transport";
import type { Beats, Environment } from "../environment.ts";
import { errors } from "../errors.ts";

/** How a replica ended. */
export interface ReplicaEnd {
  readonly outcome: EndOutcome;
  readonly reason: string;
}

/** Which replica to run. */
export interface ReplicaOptions {
  readonly job: string;
  readonly id: string;
  readonly environment: Environment;
}

/** What the handlers of one incarnation work with. */
export interface WorkTools {
  readonly identity: Identity;
  readonly environment: Environment;
  readonly transport: Transport;
  readonly outbox: Outbox;
  readonly enveloper: Enveloper;
  readonly beats: Beats;
  /** Highest term heard. */
  readonly term: () => number;
  /** Ends this life: what it works with is lost for good. */
  readonly fail: (cause: unknown) => void;
}

/** What a replica learns when it is admitted. */
export interface Admission {
  readonly dataKey: Uint8Array;
  readonly config: JobConfig;
}

/** Handlers of a role's own effects; reports, drops and timers are the same for every role. */
export type RoleHandlers<Effect extends Typed, Event extends Typed> = EffectHandlers<
  Exclude<Effect, ReportEffect | DropEffect | TimerEffect<Event>>,
  Event
>;

/** One incarnation's work. */
export interface Work<Effect extends Typed, Event extends Typed> {
  readonly handlers: RoleHandlers<Effect, Event>;
  /** Brings engine and data plane up; a rejection ends the incarnation with its cause. */
  open(admission: Admission): Promise<void>;
  /** Frees everything; running handlers end with errors. */
  close(): Promise<void>;
}

/** A role of replicas, with the types of its machine. */
export interface TypedRole<Input, Event extends Typed, Snapshot, Effect extends Typed> {
  readonly role: MemberRole;
  /** Build of its engine; empty for roles without one. */
  readonly build: string;
  /** Devices that it gives to others; absent for whoever has none to give. */
  readonly devices?: readonly string[];
  /** Names of what its heartbeat may say that it is doing; the first is that of its start, `loading`. */
  readonly phases: readonly string[];
  readonly logic: Logic<Input, Event, Snapshot, Effect>;
  /** Input before the configuration is known; admission replaces it. */
  readonly input: Input;
  create(tools: WorkTools): Work<Effect, Event>;
}

/** A role as the replica's process runs it: any role. */
export interface Role {
  readonly role: MemberRole;
  readonly build: string;
  /** Devices that it gives to others; absent for whoever has none to give. */
  readonly devices?: readonly string[];
  readonly phases: readonly string[];
  readonly logic: Logic<unknown, Typed, unknown, Typed>;
  readonly input: unknown;
  create(tools: WorkTools): {
    readonly handlers: Readonly<Record<string, EffectHandler<never, Typed>>>;
    open(admission: Admission): Promise<void>;
    close(): Promise<void>;
  };
}

/** Checks a role against the types of its machine, and forgets them: processes treat all roles alike. */
export function defineRole<Input, Event extends Typed, Snapshot, Effect extends Typed>(
  role: TypedRole<Input, Event, Snapshot, Effect>,
): Role {
  return role as unknown as Role;
}

/** How long work that is over or was aborted may go on. */
const stuckMs = 10_000;

/**
 * Waits for work that has no time left. A replica whose handlers do not end can do nothing more, however well its machine answers.
 *
 * @throws MUSTER_ERR_WORK_STUCK, which ends the life.
 */
export async function mustEnd(what: string, work: Promise<unknown>, clock: Clock): Promise<void> {
  const ended = work.then(
    () => {},
    () => {},
  );
  await withDeadline(() => ended, { what, timeoutMs: stuckMs, clock }).catch((error: unknown) => {
    throw errors.WorkStuck({ what, timeoutMs: stuckMs }, error);
  });
}

/** Runs an operating piece of work and turns its failure into an event; work that is stuck is no event: it ends the life. */
export async function settle<Event>(
  tools: Pick<HostTools<Event>, "post">,
  work: () => Promise<Event>,
  onError: (error: unknown) => Event,
): Promise<void> {
  const outcome = await work().catch((error: unknown) => {
    if (hasCode(error, "MUSTER_ERR_WORK_STUCK")) throw error;
    return onError(error);
  });
  tools.post(outcome);
}

/** One life of a replica: its connection, its machine in a host, its heartbeats, and the orderly end of all of them. */
import { MusterError, messageOf, withDeadline } from "@muster/base";
import {
  type DropEffect,
  type Logic,
  type MembershipEffect,
  type MembershipEvent,
  type MembershipInput,
  membershipLogic,
  type Pair,
  type RegisteredEvent,
  type ReportEffect,
  registrationOf,
  type StoppingEvent,
  sideBySide,
  type ToldEvent,
} from "@muster/machines";
import {
  type AnyMessage,
  createEnveloper,
  encodeMessage,
  type Identity,
  readJobConfig,
  subjectsOf,
} from "@muster/protocol";
import {
  type ActorHost,
  createActorHost,
  createIngress,
  createOutbox,
  type EffectHandler,
  type EffectHandlers,
  type HostTools,
  type Ingress,
  type Typed,
} from "@muster/runtime";
import type { Subscription, Transport } from "@muster/transport";
import { errors } from "../errors.ts";
import { LateBeats } from "./late-beats.ts";
import { SelfLease } from "./self-lease.ts";
import type { Admission, ReplicaEnd, ReplicaOptions, Role, WorkTools } from "./work.ts";

type Snapshot = Pair<unknown, unknown>;

/** Waits before the controller's configuration is known. */
const joining = { registerMs: 5_000, gatherMs: 300_000, drainMs: 30_000 };
const limits = { mailboxMax: 10_000, outboxMax: 10_000, commandsPending: 1_024, flushMs: 2_000, closeMs: 10_000 };

/** A life that has begun. */
export class Incarnation {
  readonly ended: Promise<ReplicaEnd>;
  readonly #tools: WorkTools;
  readonly #beats = new LateBeats();
  readonly #role: Role;
  readonly #membership: MembershipInput;
  readonly #work: ReturnType<Role["create"]>;
  readonly #host: ActorHost<Snapshot, Typed>;
  readonly #subscriptions: readonly Subscription[];
  readonly #lease: SelfLease;
  readonly #unwatch: () => void;
  #resolveEnd: (end: ReplicaEnd) => void = () => {};

  /** The consumer stands before the host starts: the first thing a host does is to register, and the answer must not be missed. */
  static async start(role: Role, { environment, job, id }: ReplicaOptions): Promise<Incarnation> {
    const identity: Identity = { job, id, role: role.role, incarnation: environment.newIncarnation() };
    const transport = await environment.connect(identity);
    const { clock, logger, metrics } = environment;
    let fail: (reason: string) => void = () => {};
    let hear: (message: AnyMessage, settle: () => void) => boolean = () => false;
    const ingress = createIngress({
      job,
      self: id,
      clock,
      logger,
      metrics,
      accept: (message, settle) => hear(message, settle),
      // Only the controller may speak to a replica, so it is the controller that is of another release.
      onRefused: ({ reason, detail }) => reason === "other_version" && fail(`the controller sent a ${detail}`),
    });
    const subscription = await transport.consume({
      stream: "commands",
      consumer: `${id}-${identity.incarnation}`,
      filter: subjectsOf(job).all.commandsOf(id),
      deliver: "new",
      maxPending: limits.commandsPending,
      handle: ingress.handle,
    });
    // Without the right to listen a probe stays unanswered, which is no reason not to work.
    const probes = await transport
      .subscribe(subjectsOf(job).probe(id), ingress.handleCore)
      .catch((error: unknown) => logger.warn({ error }, "probes of the controller are not heard"));
    const subscriptions = [subscription, ...(probes ? [probes] : [])];
    const life = new Incarnation(role, { identity, environment, transport, ingress, subscriptions });
    hear = (message, settle) => life.#hear(message, settle);
    fail = (reason) => life.#resolveEnd({ outcome: "refused", reason });
    return life;
  }

  private constructor(
    role: Role,
    given: Pick<WorkTools, "identity" | "environment"> & {
      readonly transport: Transport;
      readonly ingress: Ingress;
      readonly subscriptions: readonly Subscription[];
    },
  ) {
    const { identity, environment, transport, ingress } = given;
    const { clock, logger, metrics, random, wallMs } = environment;
    const end = new Promise<ReplicaEnd>((resolve) => {
      this.#resolveEnd = resolve;
    });
    this.ended = end.then((outcome) => this.#close(outcome));
    const { outboxMax, mailboxMax } = limits;
    this.#role = role;
    const { host, pid, node, life } = environment;
    const offered = role.devices ? { devices: role.devices } : {};
    this.#membership = {
      role: role.role,
      host,
      pid,
      build: role.build,
      node,
      timing: joining,
      ...offered,
      ...(life === undefined ? {} : { life }),
    };
    this.#subscriptions = given.subscriptions;
    this.#lease = new SelfLease(clock, () => this.#askAgain());
    this.#unwatch = transport.onStatus(({ type }) => {
      if (type === "connected" || type === "reconnected") this.#lease.connected(true);
      if (type === "disconnected") this.#lease.connected(false);
    });
    this.#tools = {
      identity,
      environment,
      transport,
      outbox: createOutbox({
        transport,
        clock,
        random,
        logger,
        metrics,
        outboxMax,
        onFailed: (error) => this.#fail(error),
      }),
      enveloper: createEnveloper({ ...identity, wallMs }),
      beats: this.#beats,
      term: () => ingress.term(),
      fail: (cause) => this.#fail(cause),
    };
    this.#work = role.create(this.#tools);
    const logic = sideBySide(membershipLogic, role.logic);
    this.#host = createActorHost<Snapshot, Typed, Typed>({
      logic: logic as Logic<never, Typed, Snapshot, Typed>,
      initial: logic.init({ first: this.#membership, second: role.input }),
      handlers: this.#handlers() as EffectHandlers<Typed, Typed>,
      clock,
      logger,
      metrics,
      mailboxMax,
      ...(environment.schedule ? { schedule: environment.schedule } : {}),
      stateOf,
      onStopped: ({ reason, error }) => reason === "failed" && this.#fail(error),
    });
  }

  /** Asks the replica to leave. */
  stop(reason: string): void {
    const event: StoppingEvent = { type: "process.stopping", reason };
    this.#host.post(event, { lane: "control" });
  }

  #hear(message: AnyMessage, settle: () => void): boolean {
    const { identity, enveloper, beats } = this.#tools;
    if (message.to !== undefined && message.to !== identity.incarnation) {
      settle();
      return true;
    }
    if (message.kind === "replica.probe") {
      this.#answer(message.body.nonce);
      settle();
      return true;
    }
    if (!this.#lease.admits(message.kind)) {
      this.#tools.environment.logger.info({ kind: message.kind }, "away too long: waiting for the controller's word");
      settle();
      return true;
    }
    enveloper.setTerm(message.term);
    beats.setTerm(message.term);
    const event = toEvent(message);
    if (!(event instanceof MusterError) && isRegistered(event)) this.#lease.renew(event.config.timing.deadAfterMs);
    if (!(event instanceof MusterError)) return this.#host.post(event, { lane: "control", settle });
    this.#fail(event);
    return true;
  }

  /** Says that the main loop turns; not stored, like the question. */
  #answer(nonce: number): void {
    const { identity, transport, enveloper } = this.#tools;
    const answer = enveloper.stamp("probe.answered", { nonce, by: "loop" });
    transport.send(subjectsOf(identity.job).heartbeat(identity.role, identity.id), encodeMessage(answer));
  }

  /** Asks whether this life is still a member: the answer is its admission again, with what it missed, or its end. */
  #askAgain(): void {
    const body = { ...registrationOf(this.#membership), again: true };
    this.#report({ type: "report", kind: "replica.register", body });
  }

  /** Handlers that every role has, and the role's own. */
  #handlers(): Readonly<Record<string, EffectHandler<never, Typed>>> {
    const { metrics, logger } = this.#tools.environment;
    const dropped = metrics.counter({
      name: "muster_actor_dropped_total",
      help: "Messages that came too late for the actor's epoch, version or attempt.",
      labels: ["kind"],
    });
    return {
      ...this.#work.handlers,
      report: (effect: ReportEffect, tools: HostTools<Typed>) => this.#report(effect, tools),
      drop: ({ kind, reason }: DropEffect) => {
        dropped.add(1, { kind });
        logger.debug({ kind, reason }, "message dropped");
      },
      "engine.open": (effect: Extract<MembershipEffect, { type: "engine.open" }>, tools: HostTools<Typed>) =>
        this.#open(effect, tools),
      "process.end": ({ outcome, reason }: Extract<MembershipEffect, { type: "process.end" }>) =>
        this.#resolveEnd({ outcome, reason }),
    };
  }

  async #open(admission: Admission, tools: HostTools<Typed>): Promise<void> {
    const { identity, environment } = this.#tools;
    const { heartbeatIntervalMs } = admission.config.timing;
    this.#beats.begin(() => environment.startBeats(identity, this.#role.phases, heartbeatIntervalMs));
    await this.#work.open(admission).catch((error: unknown) => {
      environment.logger.error({ error }, "the engine did not open");
      const failed: MembershipEvent = { type: "engine.failed", cause: messageOf(error) };
      tools.post(failed);
    });
  }

  #report({ kind, body, told }: ReportEffect, tools?: HostTools<Typed>): void {
    const { identity, enveloper, outbox, beats } = this.#tools;
    if (kind === "weights.held") beats.setVersion(body.version);
    if (kind === "mesh.built") {
      enveloper.setEpoch(body.epoch);
      beats.setEpoch(body.epoch);
    }
    beats.progress();
    const subject = subjectsOf(identity.job).report(identity.role, identity.id, kind);
    const message = enveloper.stamp(kind, body as never) as AnyMessage;
    const onStored = (): void => {
      if (told === undefined) return;
      const event: ToldEvent = { type: "report.told", id: told };
      tools?.post(event);
    };
    outbox.offer({ subject, message, onStored });
  }

  #fail(error: unknown): void {
    this.#resolveEnd({ outcome: "failed", reason: messageOf(error) });
  }

  async #close(end: ReplicaEnd): Promise<ReplicaEnd> {
    const { outbox, beats, transport } = this.#tools;
    this.#lease.stop();
    this.#unwatch();
    for (const subscription of this.#subscriptions) await subscription.close();
    await this.#host.stop();
    await outbox.flush(limits.flushMs);
    outbox.close();
    const stuck = await this.#closeWork();
    await beats.stop();
    await transport.close();
    return stuck === null ? end : { outcome: "failed", reason: `${end.reason}; ${stuck}` };
  }

  /** An engine that does not end its work in time can only be ended with its process. @returns What is stuck, or `null`. */
  async #closeWork(): Promise<string | null> {
    const { clock, logger } = this.#tools.environment;
    const deadline = { what: "closing the engine", timeoutMs: limits.closeMs, clock };
    try {
      await withDeadline(() => this.#work.close(), deadline);
      return null;
    } catch (error) {
      logger.error({ error }, "the engine did not close");
      return messageOf(error);
    }
  }
}

/** The event that a command is; its configuration parsed where it carries one. */
function toEvent(message: AnyMessage): Typed | MusterError {
  if (message.kind !== "replica.registered") return { type: message.kind, body: message.body } as Typed;
  const parsed = readJobConfig(JSON.parse(message.body.config), message.minor);
  if (!parsed.success) return errors.ConfigRefused({ reason: parsed.error.issues[0]?.message ?? "invalid" });
  const event: RegisteredEvent = { type: "replica.registered", body: message.body, config: parsed.data };
  return event;
}

function isRegistered(event: Typed): event is RegisteredEvent {
  return event.type === "replica.registered";
}

function stateOf(snapshot: Snapshot): unknown {
  const nameOf = (part: unknown): unknown => (part as { value?: unknown }).value;
  return { membership: nameOf(snapshot.first), work: nameOf(snapshot.second) };
}

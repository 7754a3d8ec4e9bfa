/**
 * The controller's process: replays the journal, begins a term, and from then on writes every accepted input to the journal before
 * anything it leads to leaves (protocol 2).
 */
import { every, hasCode, MusterError, messageOf } from "@muster/base";
import { detectorTimingOf } from "@muster/machines";
import {
  type AnnounceEffect,
  allMembersOf,
  type ControllerEvent,
  controllerLogic,
  mayPass,
  mayWait,
  type Rules,
} from "@muster/machines/controller";
import {
  createEnveloper,
  type Enveloper,
  encodeMessage,
  type Identity,
  type JobConfig,
  messageTable,
  storedBytesMax,
  subjectsOf,
} from "@muster/protocol";
import {
  type ActorHost,
  createActorHost,
  createIngress,
  createOutbox,
  type EffectHandlers,
  type Ingress,
  type Outbox,
} from "@muster/runtime";
import { controllerConsumer, type Transport } from "@muster/transport";
import type { Controller, ControllerEnd, ControllerOptions } from "./controller-options.ts";
import { Face } from "./face.ts";
import { figureMetersOn } from "./figure-meters.ts";
import { hearDisconnects } from "./hear-disconnects.ts";
import { eventOf, isAnsweredAgain } from "./heard-event.ts";
import { Holdings } from "./holdings.ts";
import { type IncidentWatch, watchIncidents } from "./incident-watch.ts";
import { type InputGuard, inputGuard } from "./input-guard.ts";
import type { ControllerSnapshot, Replayed } from "./journal-replay.ts";
import { JournalWriter } from "./journal-writer.ts";
import type { LostCheckpoint } from "./lost-checkpoint.ts";
import { metersOf } from "./meters.ts";
import { announcementId, type MachineEffect } from "./open-ends.ts";
import { PassedSamples } from "./passed-samples.ts";
import { refusalDesk } from "./refusals.ts";
import { writtenStatus } from "./status.ts";
import { StreamWatch, streamsEveryMs } from "./stream-watch.ts";
import { ToldMark } from "./told-mark.ts";
import { Voice } from "./voice.ts";
import { type MemberWatch, watchMembers } from "./watch-members.ts";

/** Id of every controller: there is one seat. */
export const controllerId = "controller";
const flushMs = 3_000;
const flushRoundsMax = 16;
const statusEveryMs = 1_000;
const selfEveryMs = 1_000;
const reportsPendingMax = 1_024;
/** How long after it came a report that nobody waits for is written, at most. */
const patienceMs = 500;

interface TermOptions extends ControllerOptions {
  readonly identity: Identity;
  readonly rules: Rules;
  readonly transport: Transport;
  readonly replayed: Replayed;
  /** The checkpoint from which a new journal begins, when the one before is lost. */
  readonly lost: LostCheckpoint | null;
}

/** One term of a controller, from the replay of the journal to the end. */
export class ControllerTerm implements Controller {
  readonly ended: Promise<ControllerEnd>;
  readonly #options: TermOptions;
  readonly #term: number;
  readonly #enveloper: Enveloper;
  readonly #outbox: Outbox;
  readonly #voice: Voice;
  readonly #watch: MemberWatch;
  readonly #host: ActorHost<ControllerSnapshot, ControllerEvent>;
  readonly #incidents: IncidentWatch;
  readonly #face: Face;
  /** From the clock of this process to wall time, which must not jump within a term. */
  readonly #wallOffsetMs: number;
  readonly #meters: (snapshot: ControllerSnapshot) => void;
  readonly #figures: ReturnType<typeof figureMetersOn>;
  readonly #samples: PassedSamples;
  readonly #open: Holdings;
  readonly #guard: InputGuard;
  readonly #journal: JournalWriter;
  readonly #told = new ToldMark();
  readonly #streams: StreamWatch;
  #tickedMs: number;
  /** Longest delay of a tick since the last look at this process itself. */
  // no mutant: of the first look, and a millisecond is no delay
  #lateMs = 0;
  #isMeasuring = false;
  #isOver = false;
  /** Facts said without a record. */
  // no mutant: it tells the ids of these facts apart, whatever the first one is
  #said = 0;
  /** Public facts said of the last record. */
  // no mutant: each record sets it, and no fact comes before the first
  #announced = 0;
  #resolveEnd: (end: ControllerEnd) => void = () => {};

  constructor(options: TermOptions) {
    const { config, environment, transport, replayed, identity, rules } = options;
    const { clock, logger, metrics, random, wallMs } = environment;
    this.#options = options;
    this.#term = replayed.term + 1;
    this.#tickedMs = clock.now();
    const over = new Promise<ControllerEnd>((resolve) => {
      this.#resolveEnd = resolve;
    });
    this.ended = over.then((end) => this.#close(end));
    this.#open = new Holdings(logger);
    const { recordBytes = storedBytesMax } = options;
    this.#guard = inputGuard({ logger, metrics, recordBytes, alarm: (detail) => this.#alarm("input", detail) });
    this.#enveloper = createEnveloper({ ...identity, wallMs });
    this.#enveloper.setTerm(this.#term);
    const { outboxMax, mailboxMax } = config.limits;
    this.#outbox = createOutbox({
      ...{ transport, clock, random, logger, metrics, outboxMax },
      onFailed: (error) => this.#fail(error),
    });
    const alarm = (detail: string): void => this.#alarm("unsaid", detail);
    this.#voice = new Voice({ job: config.job, enveloper: this.#enveloper, outbox: this.#outbox, logger, alarm });
    this.#watch = watchMembers(clock, detectorTimingOf(config), metrics);
    this.#meters = metersOf(metrics);
    this.#figures = figureMetersOn(metrics);
    this.#samples = this.#passedSamples(config);
    this.#incidents = watchIncidents(metrics, replayed.incidents);
    this.#wallOffsetMs = wallMs() - clock.now();
    this.#face = new Face({
      ...{ transport, clock, logger, identity, term: this.#term },
      draw: () => this.#status(),
      isOver: () => this.#host.snapshot().context.state.stopped,
      alarm: (detail) => this.#alarm("status", detail),
    });
    this.#streams = new StreamWatch({
      ...{ transport, logger, metrics },
      known: () => this.#host.snapshot().context.state.groupsFill,
      passed: (fill) => this.#host.post({ ...fill, atMs: clock.now() }, { lane: "control" }),
    });
    this.#journal = new JournalWriter({
      ...{ transport, logger, clock, rules, replayed, told: this.#told },
      incarnation: identity.incarnation,
      term: this.#term,
      snapshotRecords: config.limits.snapshotRecords,
      partBytes: options.recordBytes,
      wallOffsetMs: this.#wallOffsetMs,
      alarm: (detail) => this.#alarm("journal", detail),
    });
    this.#host = createActorHost<ControllerSnapshot, ControllerEvent, MachineEffect>({
      logic: options.logic ?? controllerLogic,
      initial: { snapshot: replayed.snapshot, effects: replayed.timers },
      handlers: this.#handlers(),
      persist: async (batch) => {
        await this.#journal.write(batch);
        this.#announced = 0;
        this.#meters(batch.snapshot);
      },
      ...{ clock, logger, metrics, mailboxMax, batchMax: 256 },
      patience: {
        mayWait: ({ context }, events) => mayWait(context.state, events),
        mayPass: ({ context }, event) => mayPass(context.state, event),
        forMs: patienceMs,
      },
      room: () => this.#outbox.room(),
      weight: { of: this.#guard.weigh, max: recordBytes },
      ...(environment.schedule ? { schedule: environment.schedule } : {}),
      onStopped: ({ reason, error }) => reason === "failed" && this.#fail(error),
    });
    logger.info({ term: this.#term, records: replayed.records, snapshotSeq: replayed.snapshotSeq }, "journal replayed");
  }

  /** Begins the term and its subscriptions. A job that is over stays so. */
  async open(): Promise<void> {
    const { environment, replayed, lost, rules } = this.#options;
    const { stopped, ending } = replayed.snapshot.context.state;
    // All of it before the first record, which says how far it is told; no more of it at a time than the outbox holds.
    for (const { effect, id, seq } of replayed.untold) {
      for (let room = this.#outbox.room(); room; room = this.#outbox.room()) await room;
      this.#voice.announce(effect, id, this.#told.says(seq));
    }
    if (stopped && ending) return this.#resolveEnd({ outcome: ending.outcome, reason: ending.reason });
    const { clock } = environment;
    // Before anything else, in one record: whoever comes next goes on from there, too.
    if (lost) {
      const checkpoint = { ...lost.found, host: environment.host };
      this.#host.post({ type: "controller.restored", atMs: clock.now(), checkpoint }, { lane: "control" });
    }
    this.#host.post({ type: "controller.elected", atMs: clock.now(), term: this.#term, rules }, { lane: "control" });
    // Whatever fails from here on ends the term, which closes what is open, and what is opened after that.
    const listening = this.#listen().catch((error: unknown) => !this.#isOver && this.#fail(error));
    await Promise.race([listening, this.ended]);
  }

  /** Subscribes to reports and heartbeats, and then begins to look at members, streams and itself. */
  async #listen(): Promise<void> {
    const { config, environment, transport } = this.#options;
    const { clock } = environment;
    const subjects = subjectsOf(config.job);
    const ingress = this.#ingress();
    const reports = await transport.consume({
      stream: "reports",
      consumer: controllerConsumer,
      filter: subjects.all.reports,
      deliver: "all",
      maxPending: reportsPendingMax,
      handle: ingress.handle,
    });
    await this.#open.hold(() => reports.close());
    const heartbeats = await transport.subscribe(subjects.all.heartbeats, ingress.handleCore);
    await this.#open.hold(() => heartbeats.close());
    await this.#open.hold(transport.onStatus(({ type }) => this.#watch.connection(type)));
    await this.#open.hold(every(clock, config.timing.tickMs, () => this.#tick()));
    await this.#open.hold(every(clock, statusEveryMs, () => void this.#face.show()));
    await this.#open.hold(every(clock, selfEveryMs, () => void this.#lookAtSelf()));
    await this.#open.hold(every(clock, streamsEveryMs, () => void this.#streams.look()));
    const unheard = await hearDisconnects(environment, this.#watch, () => this.#look());
    if (unheard) await this.#open.hold(unheard);
  }

  abort(reason: string): void {
    this.#resolveEnd({ outcome: "aborted", reason });
  }

  snapshot(): ControllerSnapshot {
    return this.#host.snapshot();
  }

  #passedSamples(config: JobConfig): PassedSamples {
    const nextStep = (): number => this.#host.snapshot().context.state.step.step;
    return new PassedSamples({ config, nextStep, say: (fact) => this.#say(fact) });
  }

  #handlers(): EffectHandlers<MachineEffect, ControllerEvent> {
    const { config, dataKey, environment } = this.#options;
    return {
      command: (effect) => this.#voice.command(effect),
      announce: (effect) => {
        this.#incidents.said(effect, this.#wallOffsetMs + environment.clock.now());
        this.#figures(effect);
        const { recordSeq } = this.#journal;
        this.#voice.announce(effect, announcementId(recordSeq, this.#announced++), this.#told.says(recordSeq));
      },
      answer: (effect) => this.#voice.answer(effect, this.#asideId()),
      admit: ({ to, incarnation }) => {
        const body = { dataKey: Uint8Array.from(dataKey), config: JSON.stringify(config) };
        this.#voice.command({ type: "command", to, incarnation, kind: "replica.registered", body });
      },
      "groups.purge": ({ beforeSeq }) => this.#streams.purgeGroups(beforeSeq),
      "controller.stop": ({ outcome, reason }) => this.#resolveEnd({ outcome, reason }),
    };
  }

  #ingress(): Ingress {
    const { config, environment, minorLeast } = this.#options;
    const { clock, logger, metrics } = environment;
    return createIngress({
      ...{ minorLeast, job: config.job, self: controllerId, clock, logger, metrics, isAnsweredAgain },
      expects: ({ kind }) => ["report", "heartbeat"].includes(messageTable[kind].direction),
      onRefused: refusalDesk({
        clock,
        tell: (body) => this.#say({ type: "announce", kind: "message.refused", body }),
        alarm: (alarm, detail) => this.#alarm(alarm, detail),
        refuse: ({ id: to, incarnation }, reason) =>
          this.#voice.aside({ type: "command", to, incarnation, kind: "replica.refused", body: { reason } }),
      }),
      accept: (message, settle, redeliveries) => {
        if (messageTable[message.kind].direction === "heartbeat") {
          this.#watch.heard(message);
          // no mutant: heartbeats come without a delivery that would be settled or come again, so nobody looks at the answer
          return true;
        }
        this.#watch.reported(message);
        if (this.#samples.take(message)) {
          settle();
          // no mutant: what is settled does not come again, whatever is answered
          return true;
        }
        const event = eventOf(message, clock.now());
        if (this.#guard.isTooLarge(message, event)) {
          settle();
          // no mutant: what is settled does not come again, whatever is answered
          return true;
        }
        const spare = (error: unknown): boolean => this.#guard.isUnbearable(message, redeliveries, error);
        return this.#host.post(event, { settle, spare });
      },
    });
  }

  #tick(): void {
    const { config, environment } = this.#options;
    const nowMs = environment.clock.now();
    // no mutant: a millisecond is no delay
    const lateMs = Math.max(0, nowMs - this.#tickedMs - config.timing.tickMs);
    // Whoever was away himself has heard nobody: what the others said meanwhile still waits to be read.
    if (lateMs > config.timing.suspectAfterMs / 2) this.#watch.stoodStill(lateMs);
    this.#lateMs = Math.max(this.#lateMs, lateMs);
    this.#tickedMs = nowMs;
    this.#look();
    this.#host.post({ type: "controller.tick", atMs: nowMs }, { lane: "control" });
  }

  /** Judges the members, and asks those who are silent. */
  #look(): void {
    const { config, transport } = this.#options;
    if (this.#isOver || !transport.isConnected()) return;
    const { verdicts, probes, alarm, outages } = this.#watch.look(allMembersOf(this.#host.snapshot().context.state));
    for (const verdict of verdicts) this.#host.post(verdict, { lane: "control" });
    for (const { id, incarnation, nonce } of probes) {
      const message = { ...this.#enveloper.stamp("replica.probe", { nonce }), to: incarnation };
      transport.send(subjectsOf(config.job).probe(id), encodeMessage(message));
    }
    if (alarm !== null) this.#alarm("view-suspect", alarm);
    if (outages !== null) this.#alarm("connection", outages);
  }

  #alarm(alarm: string, detail: string): void {
    this.#say({ type: "announce", kind: "alarm.raised", body: { alarm, detail } });
  }

  /** Says what only this process knows, without a record. */
  #say(fact: AnnounceEffect): void {
    this.#voice.announce(fact, this.#asideId());
  }

  #asideId(): string {
    return `${this.#options.identity.incarnation}.aside.${++this.#said}`;
  }

  /** How this process fares: whoever is slow himself gives the others more time. */
  async #lookAtSelf(): Promise<void> {
    const { transport, environment } = this.#options;
    const { clock, logger } = environment;
    const lateMs = this.#lateMs;
    // no mutant: a millisecond is no delay
    this.#lateMs = 0;
    if (this.#isMeasuring) return;
    this.#isMeasuring = true;
    const startedMs = clock.now();
    const flushed = transport.isConnected() ? transport.flush() : Promise.resolve();
    await flushed.catch((error: unknown) => logger.debug({ error }, "the broker did not answer in time"));
    this.#isMeasuring = false;
    this.#watch.observed({ loopLagMs: lateMs, timerLateMs: lateMs, brokerRttMs: clock.now() - startedMs });
  }

  #status(): Uint8Array {
    const { config, environment } = this.#options;
    const { clock, host, pid } = environment;
    return writtenStatus(config.job, this.#host.snapshot().context.state, {
      ...{ beats: this.#watch.beats(), nowMs: clock.now(), wallMs: environment.wallMs() },
      ...{ controller: { host, pid }, incidents: this.#incidents.summary(), streams: this.#streams.seen() },
    });
  }

  #fail(error: unknown): void {
    const isPassing = error instanceof MusterError && error.retryable;
    const outcome = hasCode(error, "MUSTER_ERR_FENCED") ? "fenced" : isPassing ? "lost" : "failed";
    const reason = messageOf(error);
    if (outcome === "failed") this.#alarm("controller", reason);
    this.#resolveEnd({ outcome, reason });
  }

  /** Waits for what was said to be stored, as long as each `timeoutMs` brings some of it to the broker. */
  async #sayEverything(timeoutMs: number): Promise<void> {
    for (let round = 1; round <= flushRoundsMax; round++) {
      const left = this.#outbox.depth();
      if ((await this.#outbox.flush(timeoutMs)) || this.#outbox.depth() === left) return;
    }
  }

  async #close(end: ControllerEnd): Promise<ControllerEnd> {
    this.#isOver = true;
    await this.#open.closeAll();
    await this.#host.stop();
    // What a fenced controller still has to say is void: the job is another's. One that lost its way is replaced, too.
    if (end.outcome !== "fenced" && end.outcome !== "lost") {
      // The end of a job is said once: its words get the time that its members have to leave, and more while the broker takes them.
      const { drainMs } = this.#options.config.timing;
      if (end.outcome === "aborted") await this.#outbox.flush(flushMs);
      else await this.#sayEverything(drainMs);
      if (this.#options.transport.isConnected()) await this.#journal.end().then(() => this.#face.show());
    }
    this.#outbox.close();
    await this.#options.transport.close();
    return end;
  }
}

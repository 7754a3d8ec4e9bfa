/** `muster run`: a whole job on this machine, each actor its own process, from broker to report. */
import { randomBytes } from "node:crypto";
import { rmSync } from "node:fs";
import { hostname } from "node:os";
import { join } from "node:path";
import type { Clock } from "@muster/base";
import { readChanges } from "@muster/check";
import { clientOf, type JobClient } from "@muster/client";
import {
  type AnyMessage,
  type Body,
  createEnveloper,
  type Enveloper,
  encodeMessage,
  subjectsOf,
} from "@muster/protocol";
import { exitCodes, systemClock } from "@muster/runtime";
import { connectNats, type Transport } from "@muster/transport";
import { writeConnection } from "../composition/connection.ts";
import { plainTextWarning } from "../composition/plain-text.ts";
import { errors } from "../errors.ts";
import type { MasterPlan, MasterRun } from "../multinode/launch.ts";
import { writeRanks } from "../multinode/ranks-file.ts";
import type { RunRecord, RunStatus } from "../report/index.ts";
import { TensorBoardFiles } from "../tensorboard/tensorboard-files.ts";
import { type Broker, openBroker } from "./broker.ts";
import { type ChildExit, type Children, type ChildSpec, superviseChildren } from "./children.ts";
import { EventFiles } from "./event-files.ts";
import { readInjections } from "./injections.ts";
import type { GrowingOptions } from "./line-parts.ts";
import { LiveFiles } from "./live-files.ts";
import { MetricsFile } from "./metrics-file.ts";
import { createNarrator, type Narrator } from "./narrator.ts";
import { PhaseKeeper } from "./phase-keeper.ts";
import { createRecorder, type Recorder } from "./recorder.ts";
import { earlierChanges } from "./resumed.ts";
import { openFolders, openRunDirectory, putStoreAside, type RunDirectory, socketDirectoryOf } from "./run-directory.ts";
import type { RunEnd, RunOptions, RunOver } from "./run-options.ts";
import { type RunTools, toolsOf } from "./run-tools.ts";
import { checkSame } from "./same-run.ts";
import { SampleFile } from "./sample-file.ts";

/** Time for leaving after Ctrl-C: the step that runs, and a checkpoint of it. */
const leaveMs = 2_500;
const killMs = 300;
const endMs = 10_000;
const farewellMs = 500;
const reportMs = 3_000;

/** Runs the job to its end. Everything it started has ended when this returns or throws. */
export async function runJob(options: RunOptions): Promise<RunEnd> {
  const { config, runs } = options;
  const directory = openRunDirectory(runs, config.job);
  try {
    if (directory.earlier) checkSame(config, directory.earlier, options.resume);
    openFolders(config);
    if (options.prolongedAfter !== null) putStoreAside(directory.path, options.prolongedAfter);
    // Whoever goes on with the run reads both, the second one first.
    directory.write("config.txt", options.configText);
    directory.write("job.json", `${JSON.stringify(config, null, 2)}\n`);
    return await new Run(options, directory).run();
  } finally {
    directory.release();
  }
}

class Run {
  readonly #options: RunOptions & RunTools;
  readonly #directory: RunDirectory;
  readonly #clock: Clock = systemClock();
  readonly #recorder: Recorder = createRecorder();
  readonly #samples: SampleFile;
  readonly #enveloper: Enveloper;
  readonly #startedWallMs = Date.now();
  /** Name of the change with which this run goes on. */
  readonly #changeId: string;
  /** What a controller of this run said of its own end. */
  #lastWords: string | null = null;
  #transport: Transport | null = null;
  #client: JobClient | null = null;
  #children: Children | null = null;
  #live: LiveFiles | null = null;
  #phase: PhaseKeeper | null = null;
  #narrator: Narrator | null = null;
  /** Files of lines. */
  #grown: readonly (EventFiles | MetricsFile)[] = [];
  #joinServer: Awaited<ReturnType<MasterPlan["open"]>> | null = null;
  #finish: (end: RunOver) => void = () => {};

  constructor(options: RunOptions, directory: RunDirectory) {
    const { path } = directory;
    this.#options = { ...options, ...toolsOf(options, { path, clock: this.#clock, recorder: this.#recorder }) };
    this.#directory = directory;
    this.#samples = new SampleFile(this.#writing());
    const incarnation = `i${randomBytes(6).toString("hex")}`;
    this.#changeId = `change-${incarnation}`;
    this.#enveloper = createEnveloper({
      job: options.config.job,
      id: "run",
      role: "operator",
      incarnation,
      wallMs: Date.now,
    });
  }

  async run(): Promise<RunEnd> {
    try {
      return await this.#run();
    } finally {
      this.#options.disk.close();
    }
  }

  async #run(): Promise<RunEnd> {
    const over = new Promise<RunOver>((resolve) => {
      this.#finish = resolve;
    });
    const { config, env } = this.#options;
    const broker = await openBroker({
      job: config.job,
      directory: this.#directory.path,
      deadAfterMs: config.timing.deadAfterMs,
      groupsBytes: config.limits.groupsBytes,
      port: this.#options.port,
      isPortKnown: this.#options.advertisedUrl !== null,
      env,
      clock: this.#clock,
      logger: this.#options.logger,
      onMoved: (detail) => this.#options.progress.note(`! ${detail}: start replicas of other terminals again`),
      onRestart: (detail) => {
        this.#options.broker.ended();
        this.#recorder.brokerEnded(detail, Date.now());
        this.#options.progress.note(`! ${detail}; it is started again`);
      },
      onGivenUp: (detail) => this.#fail(detail),
    });
    try {
      const url = this.#options.advertisedUrl ?? broker.url;
      const warning = plainTextWarning(url);
      if (warning !== null) this.#options.progress.note(`! ${warning}`);
      const { policy, rollout } = config.engine;
      const engines = { policy: policy.adapter, rollout: rollout.adapter };
      const connection = { job: config.job, url, credentials: broker.credentials, engines };
      writeConnection(this.#directory.path, { ...connection, credentials: broker.credentials as never });
      await this.#follow(broker);
      await this.#letRanksIn(connection);
      await this.#orderChanges();
      this.#phase?.begin();
      this.#start();
      const end = await this.#endOf(over);
      // Ranks have nothing to wait for when what this command was to do is done.
      await this.#joinServer?.end(end.isPhaseOver ? { ...end, outcome: "done" } : end);
      return this.#conclude(end);
    } finally {
      await this.#joinServer?.end({ outcome: "interrupted", reason: "the master failed" });
      this.#live?.close();
      await this.#phase?.close();
      await this.#children?.stop(killMs);
      await this.#transport?.close();
      await broker.stop();
      rmSync(socketDirectoryOf(this.#options.runs, config.job), { recursive: true, force: true });
    }
  }

  /** Before a controller acts, so that the first step that begins has the settings. */
  async #orderChanges(): Promise<void> {
    const { change, isStoreLost, prolongedAfter, config } = this.#options;
    const more = prolongedAfter === null ? {} : { steps: change?.settings.steps };
    const isNew = isStoreLost || prolongedAfter !== null;
    const lost = isNew ? await earlierChanges(this.#directory.path, config.checkpoint.directory, more) : [];
    for (const body of lost) await this.#report("job.change", body);
    if (change) await this.#report("job.change", { ...change, commandId: this.#changeId });
  }

  async #letRanksIn(connection: MasterRun["connection"]): Promise<void> {
    const { master, logger, progress, disk } = this.#options;
    const { path } = this.#directory;
    if (master === null) return writeRanks(this.#directory, disk, null);
    this.#joinServer = await master.open({
      ...{ directory: path, connection, clock: this.#clock, logger },
      note: (line) => progress.note(line),
      onChange: (ranks) => writeRanks(this.#directory, disk, ranks),
    });
  }

  /** Follows the public events: into the file, the record and the progress line. */
  async #follow(broker: Broker): Promise<void> {
    const { config, progress, logger, disk } = this.#options;
    const credentials = broker.credentials.operator;
    if (!credentials) throw errors.CredentialsMissing({ role: "operator", path: this.#directory.path });
    this.#transport = await connectNats({
      url: broker.url,
      job: config.job,
      credentials,
      name: "operator.run.0",
      logger,
      connectTimeoutMs: 10_000,
    });
    this.#transport.onStatus((status) => this.#options.broker.take(status));
    this.#client = clientOf(this.#transport, { id: "run", incarnation: this.#enveloper.identity.incarnation });
    this.#phase = new PhaseKeeper({
      ...{ ...this.#options.phase, config, logger, directory: this.#directory.path, client: this.#client },
      ...{ url: broker.url, credentials: broker.credentials, note: (line) => progress.note(line) },
      over: (reason) => this.#finish({ outcome: "interrupted", reason, isPhaseOver: true }),
      failed: (reason) => this.#fail(reason),
    });
    const narrator = createNarrator(progress, config.steps);
    this.#narrator = narrator;
    const files = new EventFiles(this.#writing());
    const metrics = new MetricsFile(this.#writing());
    this.#grown = [files, metrics];
    const board = new TensorBoardFiles(this.#writing());
    this.#live = new LiveFiles({
      ...{ directory: this.#directory, disk, clock: this.#clock },
      record: () => this.#record({ state: "running", reason: "" }),
    });
    let isFirst = true;
    await this.#client.follow({
      fromSeq: 1,
      take: (event, seq) => {
        if (isFirst) disk.attempt(this.#directory.path, () => this.#recorder.beginAt(files.begin(event, seq)));
        isFirst = false;
        const atMs = this.#recorder.take(event);
        files.add(event, { seq, atMs });
        metrics.take(event, atMs);
        board.take(event);
        this.#samples.take(event);
        this.#live?.changed();
        // What was said before this process began is no news.
        const isNews = event.sentAtMs >= this.#startedWallMs;
        narrator.take(event, isNews);
        if (event.kind === "alarm.raised" && event.body.alarm === "controller" && isNews)
          this.#lastWords = event.body.detail;
        if (isNews) this.#phase?.take(event);
        if (event.kind === "command.refused" && event.body.commandId === this.#changeId) this.#fail(event.body.reason);
        if (event.kind === "job.ended") this.#finish(event.body);
      },
    });
  }

  #start(): void {
    const { config, runs, logger, logLevel, metricsPort } = this.#options;
    const children = superviseChildren({
      directory: this.#directory.path,
      clock: this.#clock,
      logger,
      onExit: (exit) => this.#exited(exit),
      onGivenUp: (exit) => this.#fail(`${exit.id} keeps ending${this.#sayingOf(exit)}`),
    });
    this.#children = children;
    const common = ["--job", config.job, "--runs", runs, "--supervised", "--log-level", logLevel];
    const metrics = metricsPort === null ? [] : ["--metrics-port", String(metricsPort)];
    const { isStoreLost, prolongedAfter } = this.#options;
    const lost = prolongedAfter === null ? (isStoreLost ? ["--store-lost"] : []) : ["--prolonged"];
    children.start(this.#controllerSpec("controller", [...common, ...metrics, ...lost]));
    for (let i = 1; i < this.#options.controllers; i++) {
      const id = `controller-${i}`;
      children.start(this.#controllerSpec(id, [...common, "--id", id, "--standby"]));
    }
    for (const [i, devices] of this.#options.nodes.entries()) {
      const named = devices.length === 0 ? "none" : devices.join(",");
      const own = this.#options.master?.nodeArgs ?? [];
      children.start({ id: `node-${i}`, args: ["node", "--id", `node-${i}`, "--devices", named, ...own, ...common] });
    }
  }

  /** The one that acted comes back at once and acts again; any other stands by, or two would evict each other for ever. */
  #controllerSpec(id: string, args: readonly string[]): ChildSpec {
    const plain = args.filter((arg) => arg !== "--standby");
    const again = async ({ pid, code }: ChildExit): Promise<readonly string[]> => {
      const wasActing = code !== exitCodes.temporary && (await this.#actingPid()) === pid;
      return ["controller", ...plain, ...(wasActing || this.#options.controllers === 1 ? [] : ["--standby"])];
    };
    return { id, args: ["controller", ...args], again };
  }

  /** Process of the controller that wrote the last status; `null` when it can not be seen. */
  async #actingPid(): Promise<number | null> {
    if (!this.#client) return null;
    return await this.#client.status().then(
      (status) => status?.controller.pid ?? null,
      (error: unknown) => {
        this.#options.logger.warn({ error }, "who acts can not be seen");
        return null;
      },
    );
  }

  /** The end of a process is evidence that needs no time-out: the controller hears of it at once. */
  #exited(exit: ChildExit): void {
    const { id, pid, code, signal, words } = exit;
    this.#options.logger.warn({ id, code, signal, words }, "process ended");
    if (id.startsWith("controller")) {
      if (code === exitCodes.failed || code === exitCodes.badInput)
        this.#fail(this.#lastWords ?? `the controller ended with code ${code}${this.#sayingOf(exit)}`);
      return;
    }
    this.#reportExit({ id, host: hostname(), pid, code, signal, ...(words === undefined ? {} : { words }) });
  }

  /** What a process said when it ended; where to look when it said nothing. */
  #sayingOf({ id, words }: ChildExit): string {
    return words === undefined ? `; see ${join(this.#directory.path, "logs", `${id}.log`)}` : `: ${words}`;
  }

  #reportExit(body: Body<"process.exited">): void {
    const kind = "process.exited";
    this.#report(kind, body).catch((error: unknown) =>
      this.#options.logger.warn({ kind, error }, "operator message was not stored"),
    );
  }

  async #report<K extends "process.exited" | "job.change">(kind: K, body: Body<K>): Promise<void> {
    const message = this.#enveloper.stamp(kind, body) as AnyMessage;
    const subject = subjectsOf(this.#options.config.job).report("operator", "run", kind);
    await this.#transport?.publish(subject, encodeMessage(message), { msgId: message.id, timeoutMs: reportMs });
  }

  #fail(reason: string): void {
    const { trouble } = this.#options.disk;
    this.#finish({ outcome: "failed", reason: trouble === null ? reason : `${reason}; ${trouble}` });
  }

  async #endOf(over: Promise<RunOver>): Promise<RunOver> {
    const { interrupted } = this.#options;
    const asked = new Promise<"interrupted">((resolve) => {
      if (interrupted.aborted) resolve("interrupted");
      interrupted.addEventListener("abort", () => resolve("interrupted"), { once: true });
    });
    const first = await Promise.race([over, asked]);
    this.#children?.release();
    if (first === "interrupted") {
      await this.#letGo();
      return { outcome: "interrupted", reason: `interrupted by the operator; go on with: ${this.#options.resume}` };
    }
    if (first.isPhaseOver) {
      await this.#letGo();
      return first;
    }
    // The controller lets everybody go before it ends; whoever is still there then heard nothing and is ended.
    await this.#untilGone((id) => id.startsWith("controller"), endMs);
    await this.#untilGone(() => true, farewellMs);
    return first;
  }

  /** The nodes let their replicas leave, the last policy replica once its state is durable, and then go themselves. The job can be resumed. */
  async #letGo(): Promise<void> {
    const isLeaving = (id: string): boolean => !id.startsWith("controller");
    for (const id of this.#children?.running() ?? []) if (isLeaving(id)) this.#children?.ask(id);
    await this.#untilGone(isLeaving, leaveMs);
  }

  async #untilGone(isMeant: (id: string) => boolean, limitMs: number): Promise<void> {
    const end = this.#clock.now() + limitMs;
    while (this.#children?.running().some(isMeant) && this.#clock.now() < end)
      await new Promise<void>((resolve) => this.#clock.after(20, resolve));
  }

  #conclude({ outcome, reason, isPhaseOver }: RunOver): RunEnd {
    for (const file of this.#grown) file.flush();
    const record = this.#record({ state: outcome, reason });
    this.#live?.end(record);
    this.#narrator?.end();
    const codes = {
      done: exitCodes.ok,
      stopped: exitCodes.ok,
      failed: exitCodes.failed,
      interrupted: exitCodes.interrupted,
    };
    const exitCode = isPhaseOver ? exitCodes.ok : codes[outcome];
    return { exitCode, outcome, reason, directory: this.#directory.path, record };
  }

  /** What files that grow are written with. */
  #writing(): GrowingOptions {
    const { disk, historyBytes, progress } = this.#options;
    return {
      directory: this.#directory.path,
      attempt: (path, write) => disk.attempt(path, write),
      bytesMax: historyBytes,
      onDropped: (detail) => progress.note(detail),
    };
  }

  #record({ state, reason }: Pick<RunStatus, "state" | "reason">): RunRecord {
    const { config, configText } = this.#options;
    const { path } = this.#directory;
    const status = { state, reason, steps: config.steps, written_at: new Date().toISOString() };
    const read = { samples: this.#samples.samples, injections: readInjections(path), changes: readChanges(path) };
    return this.#recorder.record({ job: config.job, seed: config.seed, configText, status, ...read });
  }
}

/**
 * One server as an engine uses it: started where it is Muster's own, brought to the weights that are wanted, verified, and brought there again when it
 * was lost. It serves only between a verification and the next doubt.
 */
import { hasCode, messageOf } from "@muster/base";
import { errors } from "../errors.ts";
import { askChecksum, type Checksums } from "./checksums.ts";
import { ServerClient } from "./client.ts";
import type { ServerFacts, WeightPlace } from "./dialect.ts";
import type { ServedOptions } from "./options.ts";
import { ServerProcess } from "./server-process.ts";

/** What a server needs of its engine. */
export interface ServerTools {
  readonly options: ServedOptions;
  readonly key: string;
  /** It serves, or serves no longer. */
  readonly changed: () => void;
  /** It will not come back. */
  readonly lost: (cause: Error) => void;
  /** Says something to who reads the log. */
  readonly note: (text: string) => void;
  /** Of all servers of the engine. */
  readonly checksums: Checksums;
}

const pollMs = 100;
const probeMsMax = 30_000;
/** Unplanned starts of a program within a quarter of an hour, after which it is given up. */
const [startsMax, startsWithinMs] = [10, 900_000];
const backoffMs = (failures: number): number => Math.min(8_000, 200 * 2 ** failures);

/** A server, its own or attached. */
export class Server {
  /** Requests that run there. */
  active = 0;
  /** Name of the model that requests carry. */
  model = "";
  readonly #url: string | null;
  readonly #tools: ServerTools;
  readonly #closing = new AbortController();
  #client: ServerClient | null = null;
  #process: ServerProcess | null = null;
  /** Tag of the weights that the process was started with. */
  #startedWith = "";
  #target: WeightPlace | null = null;
  #isReady = false;
  /** A load was begun and did not end well: the server may be paused, or have other weights, or old caches, whatever it says of itself. */
  #isTorn = false;
  #life = 0;
  #failure: unknown = null;
  #turn: Promise<unknown> = Promise.resolve();
  #mending: Promise<void> | null = null;
  #starts: readonly number[] = [];
  /** What was said to the log last. */
  #noted = "";

  /** @param url - `null`: a program of the options, started when there are weights. */
  constructor(url: string | null, tools: ServerTools) {
    this.#url = url;
    this.#tools = tools;
  }

  get isReady(): boolean {
    return this.#isReady;
  }

  /** Counts the verifications: what was drawn between two of one life was drawn with its weights. */
  get life(): number {
    return this.#life;
  }

  /** Nobody else can change its weights, or start it again. */
  get isOwn(): boolean {
    return this.#url === null;
  }

  get failure(): unknown {
    return this.#failure;
  }

  get name(): string {
    return this.#url ?? this.#process?.url ?? "the program of engine.*.command";
  }

  get client(): ServerClient {
    if (!this.#client) throw errors.ServerUnreachable({ url: this.name, reason: "it was not started yet" });
    return this.#client;
  }

  /** Brings it to these weights. @throws why it does not have them; then it goes on trying */
  async bring(target: WeightPlace): Promise<void> {
    this.#target = target;
    this.#set(false);
    try {
      await this.#inTurn(() => this.#bring(false));
    } catch (error) {
      this.lose(error);
      throw error;
    }
  }

  /** It does not serve any longer; it is brought back in the background. */
  lose(cause: unknown): void {
    this.#failure = cause;
    this.#set(false);
    if (this.#target && !this.#closing.signal.aborted)
      this.#mending ??= this.#mend().finally(() => {
        this.#mending = null;
      });
  }

  /**
   * True while it lives and has the weights that it should have; otherwise it is lost.
   *
   * @param mustSay - One that is too busy to say is lost, too: what it drew stands and falls with what it says now.
   */
  async check(signal: AbortSignal, mustSay = false): Promise<boolean> {
    if (!this.#isReady) return false;
    const life = this.#life;
    try {
      await this.client.call({ path: this.#tools.options.dialect.healthPath, signal });
      this.#verify(await this.#facts(signal));
      return this.#isReady && life === this.#life;
    } catch (error) {
      signal.throwIfAborted();
      // Busy with questions is not gone.
      if (!mustSay && hasCode(error, "MUSTER_ERR_SERVER_BUSY")) return this.#isReady && life === this.#life;
      if (life === this.#life) this.lose(error);
      return false;
    }
  }

  /** Draws a token. @throws why there is none */
  async probe(signal: AbortSignal): Promise<void> {
    const { dialect, times } = this.#tools.options;
    const { deepHealthPath: path } = dialect;
    const timeoutMs = Math.min(times.callMs, probeMsMax);
    if (path !== null) return void (await this.client.call({ path, signal, timeoutMs }));
    const sampling = { temperature: 0, maxNewTokens: 1, stopTokenIds: [] };
    const draw = { id: `probe-${this.#life}`, promptIds: Int32Array.of(0), seed: 0, ...sampling, model: this.model };
    const { table } = await this.client.call({ ...dialect.request(draw), signal, timeoutMs });
    dialect.drawnIn(table ?? {});
  }

  async close(): Promise<void> {
    this.#closing.abort(errors.EngineClosed({ operation: "an inference server" }));
    await this.#turn;
    await this.#mending;
    await this.#end("it was closed");
    await this.#client?.close();
  }

  async #mend(): Promise<void> {
    const { signal } = this.#closing;
    for (let failures = 0; !signal.aborted && !this.#isReady; failures++) {
      await sleep(backoffMs(failures), signal);
      if (signal.aborted || this.#isReady) return;
      try {
        await this.#inTurn(() => this.#bring(true));
      } catch (error) {
        this.#failure = error;
        if (this.#isGivenUp()) return this.#tools.lost(error instanceof Error ? error : new Error(messageOf(error)));
      }
    }
  }

  /** @param isMended - It was lost, so it has to show that it generates. */
  async #bring(isMended: boolean): Promise<void> {
    const target = this.#target;
    const { signal } = this.#closing;
    if (!target || this.#isReady || signal.aborted) return;
    const { dialect, times } = this.#tools.options;
    try {
      const process = this.#process;
      const isStarted = await this.#ensure(target, isMended);
      // A process that ran before does not start: silence is all that is left of it.
      const waitMs = this.#process && this.#process === process ? 3 * times.askMs : times.startMs;
      if (!(await this.#untilUp(waitMs, target))) return;
      const before = await this.#facts(signal);
      this.model = this.#tools.options.model || before.model;
      // One that was started with these weights has them; one that can name them has to.
      const isLoaded = !this.#isTorn && (before.version === target.tag || (isStarted && !dialect.load));
      if (!isLoaded) await this.#load(target);
      const { version, model } = isLoaded ? before : await this.#facts(signal);
      this.model = this.#tools.options.model || model;
      this.#verify({ version }, target);
      await this.#compare(target);
      if (isMended) await this.probe(signal);
    } catch (error) {
      if (isMended) await this.#end(messageOf(error)); // an own one that does not serve is started anew
      throw error;
    }
    if (target !== this.#target) return;
    this.#life += 1;
    this.#failure = null;
    this.#set(true);
  }

  async #load(target: WeightPlace): Promise<void> {
    const { dialect, kind, times } = this.#tools.options;
    const fix = `start it by engine.${kind}.command, or name a route that loads weights in engine.${kind}.reload`;
    if (!dialect.load) throw errors.ServerRoutes({ url: this.name, reason: "its kind has none", fix });
    this.#isTorn = true;
    await dialect.load(this.client, target, times.loadMs);
    this.#isTorn = false;
  }

  /** Sees to it that a process of the own program runs which has these weights, or can load them. @returns True when its weights are those it was started with */
  async #ensure(target: WeightPlace, isUnplanned: boolean): Promise<boolean> {
    const { command, dialect, times } = this.#tools.options;
    if (this.#url !== null || !command) {
      this.#client ??= new ServerClient(this.#url ?? "", times, this.#tools.key);
      return false;
    }
    const isOld = !dialect.load && this.#startedWith !== target.tag;
    if (this.#process && !this.#process.isGone && !isOld) return !dialect.load;
    await this.#end("it gets other weights");
    if (isUnplanned) this.#starts = [...this.#starts, performance.now()].slice(-startsMax);
    const started = await ServerProcess.start(command, target);
    this.#process = started;
    this.#startedWith = target.tag;
    this.#client = new ServerClient(started.url, times, this.#tools.key);
    void started.ended.then((cause) => {
      if (this.#process === started && this.#isReady) this.lose(cause);
    });
    return !dialect.load;
  }

  #isGivenUp(): boolean {
    const [first = 0] = this.#starts;
    return this.#starts.length === startsMax && performance.now() - first < startsWithinMs;
  }

  /** Waits until it answers. @returns False when other weights are wanted meanwhile: whoever brings those waits. @throws what it answers that is no "not yet"; how its process ended; what it said last when the time is over */
  async #untilUp(timeoutMs: number, target: WeightPlace): Promise<boolean> {
    const { dialect, kind } = this.#tools.options;
    const untilMs = performance.now() + timeoutMs;
    const { signal } = this.#closing;
    for (;;) {
      signal.throwIfAborted();
      if (target !== this.#target) return false;
      if (this.#process?.isGone) throw await this.#process.ended;
      try {
        await this.client.call({ path: dialect.healthPath, signal });
        return true;
      } catch (error) {
        signal.throwIfAborted();
        if (hasCode(error, "MUSTER_ERR_SERVER_REFUSES")) {
          const fix = `name the server of engine.${kind} without a path, and its token in engine.${kind}.api_key_file`;
          throw errors.ServerRoutes({ url: this.name, reason: messageOf(error), fix }, error);
        }
        if (performance.now() > untilMs) throw error;
      }
      await sleep(pollMs, signal);
    }
  }

  async #facts(signal: AbortSignal): Promise<ServerFacts> {
    return await this.#tools.options.dialect.facts(this.client, signal);
  }

  /** @throws MUSTER_ERR_SERVER_STALE, MUSTER_ERR_SERVER_UNVERIFIED */
  #verify({ version: found }: Pick<ServerFacts, "version">, target = this.#target): void {
    const { kind, trusts } = this.#tools.options;
    if (found === target?.tag) return;
    if (found !== null) throw errors.ServerStale({ url: this.name, found, wanted: target?.tag ?? "none" });
    if (!trusts) throw errors.ServerUnverified({ url: this.name, what: "it has", kind });
  }

  /** Has the weights themselves checked, where the server offers that. @throws MUSTER_ERR_SERVER_CHECKSUM; then they are loaded again */
  async #compare(target: WeightPlace): Promise<void> {
    const { dialect, kind, times, trusts } = this.#tools.options;
    if (!dialect.checksum || trusts) return;
    const call = { signal: this.#closing.signal, timeoutMs: times.loadMs };
    const found = await askChecksum(dialect.checksum, this.client, call);
    if (typeof found === "string")
      return this.#note(
        `the inference server ${this.name} gives no checksum, so its weights go by their name: ${found}`,
      );
    const reason = this.#tools.checksums.admit(target, found, this.name);
    if (reason === null) return;
    this.#isTorn = true;
    const error = errors.ServerChecksum({ url: this.name, tag: target.tag, reason, kind });
    // Others may serve meanwhile: then nobody else would hear of it.
    this.#note(error.message);
    throw error;
  }

  #note(text: string): void {
    if (this.#noted === text) return;
    this.#noted = text;
    this.#tools.note(text);
  }

  async #end(cause: string): Promise<void> {
    if (!this.#process) return;
    const process = this.#process;
    this.#process = null;
    await process.kill(cause);
    await this.#client?.close();
    this.#client = null;
  }

  #set(isReady: boolean): void {
    if (this.#isReady === isReady) return;
    this.#isReady = isReady;
    this.#tools.changed();
  }

  #inTurn(run: () => Promise<void>): Promise<void> {
    const result = this.#turn.then(run);
    this.#turn = result.catch(() => {}); // the caller hears of it
    return result;
  }
}

/** Waits; ends at once when the signal is aborted. */
export function sleep(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const end = (): void => {
      clearTimeout(timer);
      signal.removeEventListener("abort", end);
      resolve();
    };
    const timer = setTimeout(end, ms);
    signal.addEventListener("abort", end, { once: true });
    if (signal.aborted) end();
  });
}

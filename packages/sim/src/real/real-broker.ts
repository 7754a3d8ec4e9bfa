/** A nats-server of a run's own, behind a proxy that cuts off whom it is told to, and what can be done to it. */
import { cp, mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import {
  type BrokerRole,
  connectNats,
  type DisconnectNotice,
  type LocalServer,
  prepareJob,
  type StreamBytes,
  type StreamName,
  type Subscription,
  startLocalServer,
  type Transport,
  watchDisconnects,
} from "@muster/transport";
import { type BrokerProxy, startBrokerProxy } from "../chaos/broker-proxy.ts";

const connectTimeoutMs = 30_000;

/** How to start a broker. */
export interface RealBrokerOptions {
  readonly natsServer: string;
  readonly job: string;
  readonly bytesMax?: StreamBytes | undefined;
  /** By what the proxy knows a connection, from its name. */
  readonly idOf: (name: string) => string;
  /** Hears what could not be done to the broker. */
  readonly onFailed: (error: unknown) => void;
}

/** A broker that runs, or is away. */
export class RealBroker {
  readonly proxy: BrokerProxy;
  readonly #options: RealBrokerOptions;
  readonly #server: LocalServer;
  readonly #directory: string;
  /** What is done to the server is done one after the other. */
  #turn: Promise<void> = Promise.resolve();
  #copies = 0;
  #isAway = false;
  #isFrozen = false;

  private constructor(options: RealBrokerOptions, server: LocalServer, at: { proxy: BrokerProxy; directory: string }) {
    this.#options = options;
    this.#server = server;
    this.#directory = at.directory;
    this.proxy = at.proxy;
  }

  /** Starts a server and makes the streams of the job. */
  static async start(options: RealBrokerOptions): Promise<RealBroker> {
    const { natsServer, job, bytesMax = {}, idOf } = options;
    const directory = await mkdtemp(join(tmpdir(), "muster-sim-"));
    const server = await startLocalServer({ binary: natsServer, directory: join(directory, "broker"), job });
    const { url, port, credentials } = server;
    await prepareJob({ url, job, credentials: credentials.controller, connectTimeoutMs, bytesMax });
    const proxy = await startBrokerProxy(() => port, "127.0.0.1", idOf);
    return new RealBroker(options, server, { proxy, directory });
  }

  /** Opens a connection of production's transport. `name` is `<role>.<id>.<incarnation>`. */
  connect(name: string): Promise<Transport> {
    const role = name.split(".")[0] as BrokerRole;
    const credentials = this.#server.credentials[role];
    return connectNats({ url: this.proxy.url, job: this.#options.job, name, credentials, connectTimeoutMs });
  }

  /** Hears of ended connections. */
  watchDisconnects(handle: (notice: DisconnectNotice) => void): Promise<Subscription> {
    const { url, credentials } = this.#server;
    return watchDisconnects({ url, credentials: credentials.system, users: credentials, connectTimeoutMs, handle });
  }

  /** Ends the server as SIGKILL does. */
  kill(): void {
    void this.#do(async () => {
      this.#isAway = true;
      await this.#server.kill();
    });
  }

  /** Starts it again, with what it had stored. */
  restart(): void {
    void this.#do(async () => {
      await this.#server.restart();
      this.#isAway = false;
    });
  }

  /** Stops it as SIGSTOP does: connections stay, nothing is stored, answered or delivered. */
  freeze(): void {
    void this.#do(async () => {
      this.#isFrozen = true;
      this.#signal("SIGSTOP");
    });
  }

  thaw(): void {
    void this.#do(async () => {
      this.#isFrozen = false;
      this.#signal("SIGCONT");
    });
  }

  /**
   * Copies the files of a stream as they are now.
   *
   * @returns Puts them back: what was stored since is lost then. The server has to be away.
   */
  async keep(stream: StreamName | "state"): Promise<() => void> {
    const copy = join(this.#directory, `copy-${++this.#copies}`);
    const folder = await this.#folderOf(stream);
    await this.#do(async () => {
      // As a crash finds them: nothing is written while they are copied.
      this.#signal("SIGSTOP");
      await cp(folder, copy, { recursive: true });
      if (!this.#isFrozen) this.#signal("SIGCONT");
    });
    return () =>
      void this.#do(async () => {
        await rm(folder, { recursive: true });
        await cp(copy, folder, { recursive: true });
      });
  }

  async close(): Promise<void> {
    await this.#turn;
    await this.proxy.close();
    await this.#server.kill();
    await rm(this.#directory, { recursive: true, force: true, maxRetries: 3 });
  }

  async #folderOf(stream: StreamName | "state"): Promise<string> {
    const { job } = this.#options;
    const name = stream === "state" ? `KV_muster-${job}` : `muster-${job}-${stream}`;
    const found = await readdir(join(this.#directory, "broker"), { recursive: true });
    const path = found.find((entry) => entry.endsWith(join("streams", name)));
    if (path === undefined) throw new Error(`the broker keeps no files of ${name}`);
    return join(this.#directory, "broker", path);
  }

  #signal(name: NodeJS.Signals): void {
    if (!this.#isAway) process.kill(this.#server.pid, name);
  }

  #do(work: () => Promise<void>): Promise<void> {
    this.#turn = this.#turn.then(work).catch(this.#options.onFailed);
    return this.#turn;
  }
}

/** The master's side: lets ranks in by their token, gives them their keys, leads them to the broker, and knows who is missing. */

import { connect, type Server, type Socket } from "node:net";
import { hostname } from "node:os";
import { createServer, type TLSSocket } from "node:tls";
import { type Clock, type Logger, messageOf } from "@muster/base";
import { errors } from "../errors.ts";
import { differenceOf } from "./options.ts";
import type { RankRoster, RankState } from "./ranks-file.ts";
import { Refusals } from "./refusals.ts";
import { keyOf } from "./token.ts";
import {
  type JoinAnswer,
  type JoinRequest,
  joinSockets,
  keepAlive,
  parsed,
  readLines,
  requestSchema,
  say,
  tlsSettings,
} from "./wire.ts";

/** What a rank gets. */
export type Admission = Omit<Extract<JoinAnswer, { readonly kind: "admitted" }>, "kind">;

/** What a master is made from. */
export interface MasterOptions {
  readonly host: string;
  /** 0 for any free one. */
  readonly port: number;
  readonly token: string;
  readonly nodes: number;
  /** What the master was told that ranks must not say otherwise. */
  readonly said: Readonly<Record<string, string>>;
  readonly admit: (rank: number) => Admission;
  /** Where the broker listens, for ranks that reach it through here. */
  readonly broker: { readonly host: string; readonly port: number } | null;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Somebody joined, left or was refused, in words. */
  readonly onNews: (line: string) => void;
  readonly onChange: (ranks: RankRoster) => void;
}

/** A master that lets ranks in. */
export interface Master {
  readonly port: number;
  /** Tells all ranks how the job ended, and closes. */
  end(end: Omit<Extract<JoinAnswer, { readonly kind: "ended" }>, "kind">): Promise<void>;
}

/** Connections at the same time, those of the replicas to the broker included. */
const connectionsMax = 16_384;
/** Connections that have not shown the token yet. One more ends the oldest: a rank shows it at once. */
const strangersMax = 256;
const firstLineMs = 10_000;
const farewellMs = 1_000;

/** Listens. @throws MUSTER_ERR_MASTER_ADDRESS */
export async function openMaster(options: MasterOptions): Promise<Master> {
  const server = new JoinServer(options);
  await server.listen();
  return server;
}

class JoinServer implements Master {
  readonly #options: MasterOptions;
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  /** By port and address, the oldest first. */
  readonly #strangers = new Map<string, Socket>();
  readonly #refused: Refusals;
  readonly #ranks = new Map<number, TLSSocket>();
  readonly #states: RankState[];
  #port = 0;
  #isEnding = false;

  constructor(options: MasterOptions) {
    this.#options = options;
    const key = keyOf(options.token);
    this.#refused = new Refusals(options.clock, (line) => {
      options.logger.warn({ line }, "connections without the join token were refused");
      options.onNews(`! ${line}`);
    });
    this.#states = Array.from({ length: options.nodes }, (_, rank) => ({
      rank,
      host: rank === 0 ? hostname() : null,
      sinceMs: Date.now(),
    }));
    const settings = { ...tlsSettings, handshakeTimeout: firstLineMs, pskIdentityHint: "muster" };
    this.#server = createServer({ ...settings, pskCallback: () => key }, (socket) => this.#connected(socket));
    this.#server.maxConnections = connectionsMax;
    this.#server.on("connection", (socket: Socket) => this.#came(socket));
    this.#server.on("tlsClientError", (error: NodeJS.ErrnoException, socket: TLSSocket) => {
      const from = socket.remoteAddress ?? "somewhere";
      options.logger.debug({ from, error }, "a connection ended before it had shown the join token");
      // Who left before was not refused: a rank whose patience was over while this host stood still, say.
      if (error.code !== "ECONNRESET") this.#refused.came(from);
    });
  }

  get port(): number {
    return this.#port;
  }

  async listen(): Promise<void> {
    const { host, port } = this.#options;
    await new Promise<void>((resolve, reject) => {
      this.#server.once("error", (error) =>
        reject(errors.MasterAddress({ host, port, reason: messageOf(error) }, error)),
      );
      this.#server.listen(port, host, resolve);
    });
    const bound = this.#server.address();
    this.#port = typeof bound === "object" && bound !== null ? bound.port : port;
    this.#changed();
  }

  async end({ outcome, reason }: Parameters<Master["end"]>[0]) {
    this.#isEnding = true;
    this.#refused.close();
    for (const socket of this.#ranks.values()) {
      say(socket, { kind: "ended", outcome, reason });
      socket.end();
    }
    const closed = new Promise<void>((resolve) => this.#server.close(() => resolve()));
    const cut = this.#options.clock.after(farewellMs, () => {
      for (const socket of this.#sockets) socket.destroy();
    });
    await closed;
    cut();
  }

  #came(socket: Socket): void {
    const from = placeOf(socket);
    this.#sockets.add(socket);
    this.#strangers.set(from, socket);
    socket.once("close", () => {
      this.#sockets.delete(socket);
      if (this.#strangers.get(from) === socket) this.#strangers.delete(from);
    });
    if (this.#strangers.size <= strangersMax) return;
    for (const oldest of this.#strangers.values()) return void oldest.destroy();
  }

  #connected(socket: TLSSocket): void {
    const { clock, logger } = this.#options;
    this.#strangers.delete(placeOf(socket));
    socket.on("error", (error) => logger.info({ error }, "a connection of a rank broke"));
    // Also for one that was refused and does not close its end.
    const late = clock.after(firstLineMs, () => socket.destroy());
    socket.once("close", late);
    let isMember = false;
    readLines(socket, (line) => {
      // Whatever a rank says now means that it is there.
      if (isMember) return null;
      const request = parsed(requestSchema, line);
      const { broker } = this.#options;
      if (request?.want === "broker" && broker) {
        late();
        return () => joinSockets(socket, connect(broker.port, broker.host));
      }
      if (request?.want === "join") isMember = this.#join(socket, request);
      else
        this.#refuse(socket, "this master does not know the request; start all ranks with the same commit of muster");
      if (isMember) late();
      return isMember ? null : () => socket.resume();
    });
  }

  /** Lets a rank in, or says why not. @returns Whether it is in. */
  #join(socket: TLSSocket, request: Extract<JoinRequest, { readonly want: "join" }>): boolean {
    const { nodes, said, admit, clock, logger, onNews } = this.#options;
    const { rank, host } = request;
    const held = this.#states[rank]?.host;
    const difference = differenceOf(said, request.said);
    if (difference !== null) return this.#refuse(socket, difference);
    if (rank < 1 || rank >= nodes)
      return this.#refuse(socket, `rank ${rank} is none of ${nodes}; use --worker 1 to ${nodes - 1}`);
    if (this.#ranks.has(rank))
      return this.#refuse(
        socket,
        `rank ${rank} is held by ${held} already; stop it there, or give this one another rank`,
        true,
      );
    this.#ranks.set(rank, socket);
    say(socket, { kind: "admitted", ...admit(rank) });
    let why = "its process ended, or the network";
    keepAlive(socket, clock, (reason) => {
      why = reason;
    });
    socket.once("close", () => {
      this.#ranks.delete(rank);
      if (this.#isEnding) return;
      this.#change(rank, null);
      logger.warn({ rank, host, why }, "rank left");
      onNews(`- rank ${rank} (${host}) left: ${why}; its work goes to the others${this.#missing()}`);
    });
    this.#change(rank, host);
    logger.info({ rank, host, from: socket.remoteAddress }, "rank joined");
    onNews(`+ rank ${rank} joined from ${host}${this.#missing()}`);
    return true;
  }

  #refuse(socket: TLSSocket, reason: string, passing = false): false {
    this.#options.logger.warn({ from: socket.remoteAddress, reason }, "a rank was refused");
    if (!passing) this.#options.onNews(`! a rank from ${socket.remoteAddress} was refused: ${reason}`);
    say(socket, { kind: "refused", reason, passing });
    socket.end();
    return false;
  }

  #change(rank: number, host: string | null): void {
    this.#states[rank] = { rank, host, sinceMs: Date.now() };
    this.#changed();
  }

  #changed(): void {
    this.#options.onChange({ host: this.#options.host, port: this.#port, ranks: this.#states });
  }

  #missing(): string {
    const missing = this.#states.filter(({ rank, host }) => rank > 0 && host === null).map(({ rank }) => rank);
    return missing.length === 0 ? "; all ranks are there" : `; missing: ${missing.join(", ")}`;
  }
}

/** Where a connection comes from: the same of a TLS connection and of what it goes through. */
function placeOf({ remoteAddress, remotePort }: Socket): string {
  return `${remoteAddress} ${remotePort}`;
}

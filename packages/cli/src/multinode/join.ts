/** The side of a rank: it asks the master to be let in, waits for one that is not there, and leads connections to its broker. */
import { createServer, type Socket } from "node:net";
import { hostname } from "node:os";
import { connect, type TLSSocket } from "node:tls";
import { type Clock, formatDuration, messageOf } from "@muster/base";
import { errors } from "../errors.ts";
import type { Admission } from "./master.ts";
import { keyOf } from "./token.ts";
import { answerSchema, joinSockets, keepAlive, parsed, readLines, say, silenceMs, tlsSettings } from "./wire.ts";

/** What a rank needs to be let in. */
export interface JoinOptions {
  readonly host: string;
  readonly port: number;
  readonly token: string;
  readonly rank: number;
  /** What its command line said of the job. */
  readonly said: Readonly<Record<string, string>>;
  /** How long a master that is not there is waited for. */
  readonly timeoutMs: number;
  readonly clock: Clock;
  readonly signal: AbortSignal;
  readonly onNews: (line: string) => void;
}

/** How the master's word ended: the job is over, or nobody answers any more. */
export type JoinEnd =
  | { readonly kind: "ended"; readonly outcome: "done" | "stopped" | "failed" | "interrupted"; readonly reason: string }
  | { readonly kind: "lost"; readonly reason: string };

/** A rank that was let in. */
export interface Joined {
  readonly admission: Admission;
  readonly over: Promise<JoinEnd>;
  leave(): void;
}

type Attempt =
  | { readonly kind: "joined"; readonly joined: Joined }
  | { readonly kind: "refused"; readonly reason: string; readonly passing: boolean }
  | { readonly kind: "away"; readonly reason: string };

const pauseMinMs = 250;
const pauseMaxMs = 2_000;
const newsMs = 10_000;
const connectMs = 10_000;

/**
 * Joins; waits for a master that is not there yet, and for the end of an earlier life of this rank.
 *
 * @throws MUSTER_ERR_JOIN_REFUSED, MUSTER_ERR_JOIN_TOKEN_WRONG, MUSTER_ERR_MASTER_AWAY; the reason of the signal when it is aborted
 */
export async function join(options: JoinOptions): Promise<Joined> {
  const { clock, timeoutMs, signal, rank, host, port, onNews } = options;
  const startedMs = clock.now();
  let saidMs = Number.NEGATIVE_INFINITY;
  let refusedMs: number | null = null;
  for (let pauseMs = pauseMinMs; ; pauseMs = Math.min(pauseMaxMs, 2 * pauseMs)) {
    const attempt = await attemptTo(options);
    if (attempt.kind === "joined") return attempt.joined;
    const { reason } = attempt;
    const waitedMs = clock.now() - startedMs;
    // A life of this rank that died unseen is taken for gone after the silence.
    refusedMs = attempt.kind === "refused" ? (refusedMs ?? clock.now()) : null;
    if (attempt.kind === "refused" && !(attempt.passing && clock.now() - (refusedMs ?? 0) < 2 * silenceMs))
      throw errors.JoinRefused({ host, port, reason });
    if (waitedMs >= timeoutMs) throw errors.MasterAway({ host, port, waited: formatDuration(timeoutMs), reason });
    if (clock.now() - saidMs >= newsMs) {
      saidMs = clock.now();
      const left = formatDuration(Math.max(0, Math.round((timeoutMs - waitedMs) / 1_000)) * 1_000);
      onNews(`rank ${rank} waits for the master at ${host}:${port} (${reason}); gives up in ${left}`);
    }
    await pause(clock, Math.min(pauseMs, timeoutMs - waitedMs), signal);
  }
}

async function attemptTo(options: JoinOptions): Promise<Attempt> {
  const { rank, said, host, port, signal, clock } = options;
  signal.throwIfAborted();
  const socket = dial(options);
  const stop = (): void => void socket.destroy();
  signal.addEventListener("abort", stop, { once: true });
  const result = await new Promise<Attempt>((resolve, reject) => {
    const away = (reason: string): void => resolve({ kind: "away", reason });
    const late = clock.after(connectMs, () => {
      away("it does not answer");
      socket.destroy();
    });
    let end: (end: JoinEnd) => void = () => {};
    let why = "the connection ended";
    const over = new Promise<JoinEnd>((ended) => {
      end = ended;
    });
    socket.once("secureConnect", () => say(socket, { want: "join", v: 1, rank, host: hostname(), said }));
    socket.on("error", (error) => {
      why = messageOf(error);
      const fault = handshakeFault(error, { host, port });
      if (fault) reject(fault);
      else away(why);
    });
    socket.once("close", () => {
      late();
      signal.removeEventListener("abort", stop);
      away(why);
      end({ kind: "lost", reason: why });
    });
    readLines(socket, (line) => {
      const answer = parsed(answerSchema, line);
      if (answer?.kind === "admitted") {
        late();
        const { kind: _, ...admission } = answer;
        resolve({ kind: "joined", joined: { admission, over, leave: () => socket.destroy() } });
        keepAlive(socket, clock, (reason) => {
          why = `the master was ${reason}`;
        });
      } else if (answer?.kind === "refused") {
        resolve(answer);
        socket.end();
      } else if (answer?.kind === "ended") end(answer);
      else if (answer === null) {
        away("it says what this commit of muster does not know");
        socket.destroy();
      }
      return null;
    });
  });
  signal.throwIfAborted();
  return result;
}

function dial({ host, port, token }: Pick<JoinOptions, "host" | "port" | "token">): TLSSocket {
  const psk = keyOf(token);
  // The key proves who the other side is; there is no certificate whose name could be compared.
  return connect({
    ...tlsSettings,
    host,
    port,
    checkServerIdentity: () => undefined,
    pskCallback: () => ({ psk, identity: "muster" }),
  });
}

/** What is wrong for good when two sides do not understand each other; `null` when they may later. */
function handshakeFault(
  error: Error & { readonly code?: string },
  at: { readonly host: string; readonly port: number },
): Error | null {
  const code = error.code ?? "";
  if (!code.startsWith("ERR_SSL") && code !== "EPROTO") return null;
  const isKey = /BAD_RECORD_MAC|DECRYPT/.test(`${code} ${error.message}`);
  return isKey ? errors.JoinTokenWrong(at, error) : errors.MasterForeign({ ...at, reason: messageOf(error) }, error);
}

/** The broker of the master at a port of this host's loopback. */
export interface Tunnel {
  readonly url: string;
  close(): void;
}

/** Opens a port of loopback that leads to the master's broker. While the master is away connections to it end, and whoever made them tries again. */
export async function openTunnel(options: Pick<JoinOptions, "host" | "port" | "token">): Promise<Tunnel> {
  const sockets = new Set<Socket>();
  const server = createServer((near) => {
    const far = dial(options);
    say(far, { want: "broker", v: 1 });
    joinSockets(near, far);
    sockets.add(near);
    near.once("close", () => sockets.delete(near));
  });
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(0, "127.0.0.1", resolve);
  });
  const bound = server.address();
  const port = typeof bound === "object" && bound !== null ? bound.port : 0;
  return {
    url: `nats://127.0.0.1:${port}`,
    close() {
      server.close();
      for (const socket of sockets) socket.destroy();
    },
  };
}

function pause(clock: Clock, ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const stop = (): void => {
      cancel();
      reject(signal.reason);
    };
    const cancel = clock.after(ms, () => {
      signal.removeEventListener("abort", stop);
      resolve();
    });
    signal.addEventListener("abort", stop, { once: true });
  });
}

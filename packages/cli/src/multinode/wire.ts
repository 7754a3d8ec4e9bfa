/**
 * Connections between ranks and master: TLS whose key is the join token (RFC 5489: an exchange by elliptic curves with a pre-shared key). Each side
 * proves that it has the token, nobody between them reads or changes anything, and no certificate is needed. What is said is lines of JSON; a
 * connection that was opened for the broker carries its bytes after the first line.
 */
import type { Socket } from "node:net";
import type { SecureVersion } from "node:tls";
import { type Clock, every } from "@muster/base";
import { z } from "zod";

/** Settings of TLS on both sides. */
export const tlsSettings = {
  ciphers: "ECDHE-PSK-CHACHA20-POLY1305",
  minVersion: "TLSv1.2" as SecureVersion,
  maxVersion: "TLSv1.2" as SecureVersion,
};

/** How often each side says that it is there, and after how long a silence the other one is taken for gone. */
const beatMs = 2_000;
export const silenceMs = 10_000;

/** Longest line, in characters: credentials of three roles have a few thousand. */
const lineMax = 64 * 1024;

const rank = z.number().int().min(0).max(4_096);
const text = z.string().max(1_024);

/** The first line of a connection to the master. */
export const requestSchema = z.discriminatedUnion("want", [
  z.strictObject({ want: z.literal("join"), v: z.literal(1), rank, host: text, said: z.record(text, text) }),
  z.strictObject({ want: z.literal("broker"), v: z.literal(1) }),
]);

/** What a rank asks for. */
export type JoinRequest = z.infer<typeof requestSchema>;

/** What the master says to a rank. */
export const answerSchema = z.discriminatedUnion("kind", [
  z.strictObject({
    kind: z.literal("admitted"),
    job: z.string(),
    /** Text of the connection file, whose address is replaced where `tunnel` is true. */
    connection: z.string().max(lineMax),
    tunnel: z.boolean(),
    /** As `muster node --capacity` takes it. */
    capacity: z.string(),
  }),
  z.strictObject({
    kind: z.literal("refused"),
    reason: z.string(),
    /** True when the same request may be granted in a moment. */
    passing: z.boolean(),
  }),
  z.strictObject({ kind: z.literal("beat") }),
  z.strictObject({
    kind: z.literal("ended"),
    outcome: z.enum(["done", "stopped", "failed", "interrupted"]),
    reason: z.string(),
  }),
]);

/** One line of the master. */
export type JoinAnswer = z.infer<typeof answerSchema>;

/** Writes one line. */
export function say(socket: Socket, value: unknown): void {
  socket.write(`${JSON.stringify(value)}\n`);
}

/**
 * Says at every beat that this side is there, and ends a connection on which nothing came for {@link silenceMs}. A socket's own time-out would not: it
 * takes what is written for activity. Beats are counted, so that a process that stood still itself first reads what has come meanwhile.
 */
export function keepAlive(socket: Socket, clock: Clock, onSilent: (reason: string) => void): void {
  let beatsWithout = 0;
  socket.on("data", () => {
    beatsWithout = 0;
  });
  const stop = every(clock, beatMs, () => {
    beatsWithout++;
    if (beatsWithout * beatMs <= silenceMs) return say(socket, { kind: "beat" });
    onSilent(`silent for ${silenceMs / 1_000} s`);
    socket.destroy();
  });
  socket.once("close", stop);
}

/** Reads lines until `take` returns who gets the bytes after this one, which are no lines any more. Too long a line ends the connection. */
export function readLines(socket: Socket, take: (line: string) => null | (() => void)): void {
  let kept = Buffer.alloc(0);
  const onData = (chunk: Buffer): void => {
    kept = Buffer.concat([kept, chunk]);
    for (let end = kept.indexOf(10); end >= 0; end = kept.indexOf(10)) {
      const line = kept.subarray(0, end).toString("utf8");
      kept = kept.subarray(end + 1);
      const next = take(line);
      if (next === null) continue;
      socket.off("data", onData);
      socket.pause();
      if (kept.length > 0) socket.unshift(kept);
      next();
      return;
    }
    if (kept.length > lineMax) socket.destroy(new Error(`a line has more than ${lineMax} bytes`));
  };
  socket.on("data", onData);
}

/** A line as a value of a schema; `null` for anything else. */
export function parsed<T>(schema: z.ZodType<T>, line: string): T | null {
  try {
    return schema.safeParse(JSON.parse(line)).data ?? null;
  } catch {
    return null;
  }
}

/** Leads the bytes of each side to the other; the end of one is that of both. */
export function joinSockets(a: Socket, b: Socket): void {
  for (const [from, to] of [
    [a, b],
    [b, a],
  ] as const) {
    from.setNoDelay(true);
    from.pipe(to);
    from.on("error", () => to.destroy());
    from.on("close", () => to.destroy());
  }
}

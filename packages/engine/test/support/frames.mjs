/**
 * The socket of the worker protocol for programs of the tests, from the pages of the protocol alone: what Muster itself has for it is not used here, so
 * that a mistake in it is found.
 */
import { writeSync } from "node:fs";
import { Socket } from "node:net";

const isSocket = process.env.MUSTER_WORKER_IN === "3";
const input = isSocket ? new Socket({ fd: 3 }) : process.stdin;

/** Text as a frame. */
export function frameOf(text) {
  const body = Buffer.from(text);
  const head = Buffer.alloc(4);
  head.writeUInt32LE(body.length);
  return Buffer.concat([head, body]);
}

/** Writes bytes that need not be a frame. */
export function write(bytes) {
  if (isSocket) input.write(bytes);
  else writeSync(Number(process.env.MUSTER_WORKER_OUT), bytes);
}

/** Sends a message. */
export const say = (message) => write(frameOf(JSON.stringify(message)));

/** Hears Muster: its hello, then each other message; `end` when the socket has ended. */
export function hear({ hello, message, end = () => process.exit(0) }) {
  let held = Buffer.alloc(0);
  let take = (first) => {
    take = message;
    hello(first);
  };
  input.on("data", (bytes) => {
    held = Buffer.concat([held, bytes]);
    while (held.length >= 4 && held.length >= 4 + held.readUInt32LE(0)) {
      const length = held.readUInt32LE(0);
      const text = held.toString("utf8", 4, 4 + length);
      held = held.subarray(4 + length);
      take(JSON.parse(text));
    }
  });
  input.on("end", end);
}

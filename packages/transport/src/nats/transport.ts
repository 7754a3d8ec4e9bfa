/** The NATS implementation of {@link Transport}: a thin table over one {@link Link}. */
import { createHmac } from "node:crypto";
import { messageOf } from "@muster/base";
import { errors } from "../errors.ts";
import { brokerStream, type StreamName, streamNames, streamRules, streamSubject } from "../streams.ts";
import type { StreamUsage, Subscription, Transport } from "../transport.ts";
import { type ConnectOptions, checkPayload, openLink } from "./connect.ts";
import { consume } from "./consume.ts";
import { serveDesk } from "./desk.ts";
import { openJournal } from "./journal.ts";
import type { Link } from "./link.ts";
import { openState } from "./state-store.ts";
import { store } from "./store.ts";
import { tail } from "./tail.ts";
import { translate } from "./translate.ts";

/**
 * Connects an actor to the NATS broker of its job. Reconnects for ever afterwards.
 *
 * @throws MUSTER_ERR_BROKER_UNREACHABLE, MUSTER_ERR_BROKER_AUTH, MUSTER_ERR_BROKER_TOO_OLD, MUSTER_ERR_BROKER_PAYLOAD
 */
export async function connectNats(options: ConnectOptions): Promise<Transport> {
  const link = await openLink(options);
  await checkPayload(link, options.url);
  // A standby answers as well as who acts, so that whoever comes while nobody acts is heard as soon as somebody stands by.
  if (link.role === "controller") serveDesk(link, options.job);
  return transportOf(link, options.job);
}

function transportOf(link: Link, job: string): Transport {
  const journal = openJournal(link, job);
  const state = openState(link, job);
  return {
    job,
    publish: (subject, data, options) =>
      store(link, { subject, data, ...options, msgId: keyOf(link, job, subject, options.msgId) }),
    send: (subject, data) => {
      if (link.isConnected) link.connection.publish(subject, data);
    },
    subscribe: (pattern, handle) => subscribe(link, pattern, handle),
    consume: (options) => consume(link, job, options),
    fetch: (stream, seq) => fetch(link, job, stream, seq),
    purge: async (stream, beforeSeq) => {
      const name = brokerStream(job, stream);
      await link.call(`purging ${name}`, () => link.manager.streams.purge(name, { seq: beforeSeq }));
    },
    usage: (stream) => usage(link, job, stream),
    tail: (options) => tail(link, job, options),
    journal: () => journal,
    state: () => state,
    onStatus: (listener) => {
      listener({ type: link.isConnected ? "connected" : link.isClosed ? "closed" : "disconnected" });
      return link.onStatus(listener);
    },
    isConnected: () => link.isConnected,
    flush: () => link.call("flushing", () => link.connection.flush()),
    close: () => link.close(),
  };
}

/**
 * By what the broker knows a message again. A stream that many roles write remembers the ids of all of them, and ids can be guessed: who
 * stores something under the next id of another swallows its message. There the key is the id under a secret of this connection.
 */
function keyOf(link: Link, job: string, subject: string, msgId: string): string {
  const isShared = streamNames.some(
    (name) => streamRules[name].isShared && subject.startsWith(streamSubject(job, name).slice(0, -1)),
  );
  return isShared ? createHmac("sha256", link.secret).update(msgId).digest("base64url") : msgId;
}

async function subscribe(
  link: Link,
  pattern: string,
  handle: (subject: string, data: Uint8Array) => void,
): Promise<Subscription> {
  let refusal: Error | null = null;
  const subscription = link.connection.subscribe(pattern, {
    callback: (error, message) => {
      if (error) refusal = error;
      else guard(link, message.subject, () => handle(message.subject, message.data));
    },
  });
  await link.call(`subscribing to ${pattern}`, () => link.connection.flush());
  if (refusal) throw translate(refusal, `subscribing to ${pattern}`);
  return { close: async () => subscription.unsubscribe() };
}

function guard(link: Link, subject: string, run: () => void): void {
  try {
    run();
  } catch (error) {
    link.report(errors.DeliveryHandlerFailed({ subject, seq: 0, reason: messageOf(error) }, error));
  }
}

async function usage(link: Link, job: string, stream: StreamName): Promise<StreamUsage> {
  const name = brokerStream(job, stream);
  const { state, config } = await link.call(`looking at ${name}`, () => link.manager.streams.info(name));
  return { bytes: state.bytes, bytesMax: config.max_bytes > 0 ? config.max_bytes : null, lastSeq: state.last_seq };
}

async function fetch(link: Link, job: string, stream: StreamName, seq: number): Promise<Uint8Array> {
  const name = brokerStream(job, stream);
  const what = `reading message ${seq} of ${name}`;
  const near = streamRules[stream].direct
    ? await link.call(what, () => link.manager.direct.getMessage(name, { seq }))
    : null;
  // Any replica answers a direct read, so one that lags may not have the message yet: only the leader can say it is gone.
  const message = near ?? (await link.call(what, () => link.manager.streams.getMessage(name, { seq })));
  if (message === null) throw errors.MessageGone({ stream: name, seq });
  return message.data;
}

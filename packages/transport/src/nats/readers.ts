/**
 * Consumers on the broker. Only the controller may make one, since whoever makes one says where it delivers to; the other roles ask
 * the desk of whoever holds the controller's credentials.
 */
import {
  AckPolicy,
  type ConsumerConfig,
  type ConsumerInfo,
  DeliverPolicy,
  JetStreamApiError,
} from "@nats-io/jetstream";
import { nanos } from "@nats-io/nats-core";
import { errors } from "../errors.ts";
import { brokerRoles, streamsReadBy } from "../server/roles.ts";
import { brokerStream, deskSubject, type StreamName, streamRules, streamSubject } from "../streams.ts";
import type { Link } from "./link.ts";
import { PutOff } from "./translate.ts";

/** A consumer of an actor that is gone removes itself after this. */
const inactiveMs = 300_000;
/** The same for one that only follows. */
const followerInactiveMs = 30_000;

/** Room for a question and its answer in time: one attempt, before the next is made. */
const questionMs = 2_000;

/** What a consumer is to be. */
export interface ReaderRequest {
  readonly stream: StreamName;
  readonly name: string;
  /** Subject pattern of the messages wanted; `null` for all. */
  readonly filter: string | null;
  /** First sequence, or what is stored from now on, or everything. */
  readonly start: "new" | "all" | number;
  /** Messages are acknowledged, at most so many are out at a time; `null` for who only follows. */
  readonly ack: { readonly maxPending: number; readonly waitMs: number } | null;
}

/** What the desk answers: the consumer, in how many milliseconds to ask again, or what the broker or the desk has against it. */
export type DeskAnswer =
  | { readonly info: ConsumerInfo }
  | { readonly retryMs: number }
  | { readonly error: { readonly code: number; readonly err_code: number; readonly description: string } };

/**
 * The name of a consumer. Replicas of other roles may name any consumer of the stream, so the name of one holds 128 random bits that
 * only its reader and the desk know.
 */
export function readerName(link: Link, name: string): string {
  return link.role === "controller" ? name : `${link.role}-${link.id}-${name}-${link.secret}`;
}

/** Makes a consumer, or finds the same one. One attempt. @throws JetStreamApiError */
export async function makeReader(link: Link, job: string, request: ReaderRequest): Promise<ConsumerInfo> {
  if (link.role === "controller") return await addReader(link, job, request);
  const isReader = brokerRoles.some((role) => role === link.role && streamsReadBy(role).includes(request.stream));
  if (!isReader) throw errors.BrokerPermission({ operation: "read", subject: streamSubject(job, request.stream) });
  const question = JSON.stringify(request);
  const answer = await link.connection.request(deskSubject(job, link.role, link.id), question, { timeout: questionMs });
  const said = answer.json<DeskAnswer>();
  if ("retryMs" in said) throw new PutOff(said.retryMs);
  if ("error" in said) throw new JetStreamApiError(said.error);
  return said.info;
}

/** Makes a consumer with the controller's credentials. */
export function addReader(link: Link, job: string, request: ReaderRequest): Promise<ConsumerInfo> {
  return link.manager.consumers.add(brokerStream(job, request.stream), toConfig(request));
}

function toConfig({ stream, name, filter, start, ack }: ReaderRequest): Partial<ConsumerConfig> {
  const isQueue = streamRules[stream].retention === "queue";
  const common = { ...(filter === null ? {} : { filter_subject: filter }), ...startOf(isQueue ? "all" : start) };
  if (!ack) {
    const inactive_threshold = nanos(followerInactiveMs);
    return { ...common, name, ack_policy: AckPolicy.None, mem_storage: true, inactive_threshold };
  }
  return {
    ...common,
    durable_name: name,
    ack_policy: AckPolicy.Explicit,
    // A broker that starts again has lost it, and its reader makes it again where it stood. On disk it would take 20 times as long to make.
    mem_storage: !isQueue,
    ack_wait: nanos(ack.waitMs),
    max_ack_pending: ack.maxPending,
    ...(isQueue ? {} : { inactive_threshold: nanos(inactiveMs) }),
  };
}

function startOf(start: ReaderRequest["start"]): Partial<ConsumerConfig> {
  if (typeof start === "number")
    return { deliver_policy: DeliverPolicy.StartSequence, opt_start_seq: Math.max(1, start) };
  return { deliver_policy: start === "new" ? DeliverPolicy.New : DeliverPolicy.All };
}

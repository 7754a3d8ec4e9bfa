/** Durable reading with acknowledgements. */
import { messageOf } from "@muster/base";
import {
  AckPolicy,
  type ConsumerConfig,
  type ConsumerInfo,
  DeliverPolicy,
  JetStreamApiCodes,
  type JsMsg,
} from "@nats-io/jetstream";
import { nanos } from "@nats-io/nats-core";
import { errors } from "../errors.ts";
import { ackWaitDefaultMs, brokerStream, handlerRetryMs, streamRules } from "../streams.ts";
import type { ConsumeOptions, Delivery, Subscription } from "../transport.ts";
import { keepReading } from "./keep-reading.ts";
import type { Link } from "./link.ts";
import { isApiError } from "./translate.ts";

/** A consumer of an actor that is gone removes itself after this. */
const inactiveMs = 300_000;
const pullMs = 30_000;
const heartbeatMs = 5_000;

export function consume(link: Link, job: string, options: ConsumeOptions): Promise<Subscription> {
  const stream = brokerStream(job, options.stream);
  const place = new Place();
  const open = async (): ReturnType<typeof keepOpen> => {
    const info = await findOrAdd(link, stream, toConfig(options, place.resumeSeq));
    place.begin(info.ack_floor.stream_seq);
    return keepOpen(info);
  };
  const keepOpen = (info: ConsumerInfo) =>
    link.js.consumers.getConsumerFromInfo(info).consume({
      max_messages: options.maxPending,
      expires: pullMs,
      idle_heartbeat: heartbeatMs,
      abort_on_missing_resource: true,
      callback: (message) => deliver(link, place, message, options.handle),
    });
  return keepReading(link, `consumer ${options.consumer} of ${stream}`, open);
}

/** Where a consumer stands, so that one that was lost starts again with the first message that is not done. */
class Place {
  #isBegun = false;
  #last = 0;
  readonly #outstanding = new Set<number>();

  /** The first sequence still wanted; `null` before anything is known. */
  get resumeSeq(): number | null {
    if (!this.#isBegun) return null;
    return this.#outstanding.size > 0 ? Math.min(...this.#outstanding) : this.#last + 1;
  }

  begin(floorSeq: number): void {
    this.#isBegun = true;
    this.#last = Math.max(this.#last, floorSeq);
  }

  received(seq: number): void {
    this.#last = Math.max(this.#last, seq);
    this.#outstanding.add(seq);
  }

  settled(seq: number): void {
    this.#outstanding.delete(seq);
  }
}

function toConfig(options: ConsumeOptions, resumeSeq: number | null): Partial<ConsumerConfig> {
  const isQueue = streamRules[options.stream].retention === "queue";
  return {
    durable_name: options.consumer,
    filter_subject: options.filter,
    ack_policy: AckPolicy.Explicit,
    ack_wait: nanos(options.ackWaitMs ?? ackWaitDefaultMs),
    max_ack_pending: options.maxPending,
    ...(isQueue ? {} : { inactive_threshold: nanos(inactiveMs) }),
    ...startOf(isQueue ? "all" : options.deliver, isQueue ? null : resumeSeq),
  };
}

function startOf(deliver: "new" | "all", resumeSeq: number | null): Partial<ConsumerConfig> {
  if (resumeSeq !== null) return { deliver_policy: DeliverPolicy.StartSequence, opt_start_seq: resumeSeq };
  return { deliver_policy: deliver === "new" ? DeliverPolicy.New : DeliverPolicy.All };
}

async function findOrAdd(link: Link, stream: string, config: Partial<ConsumerConfig>): Promise<ConsumerInfo> {
  const name = config.durable_name ?? "";
  try {
    return await link.manager.consumers.info(stream, name);
  } catch (error) {
    if (!isApiError(error, JetStreamApiCodes.ConsumerNotFound)) throw error;
    return await link.manager.consumers.add(stream, config);
  }
}

function deliver(link: Link, place: Place, message: JsMsg, handle: (delivery: Delivery) => void): void {
  const { seq, subject } = message;
  place.received(seq);
  const settle = (answer: () => void, isDone: boolean): void => {
    if (isDone) place.settled(seq);
    if (!link.isClosed) answer();
  };
  const delivery: Delivery = {
    subject,
    seq,
    data: message.data,
    redeliveries: message.info.deliveryCount - 1,
    ack: () => settle(() => message.ack(), true),
    nak: (delayMs) => settle(() => message.nak(delayMs), false),
    term: () => settle(() => message.term(), true),
  };
  try {
    handle(delivery);
  } catch (error) {
    link.report(errors.DeliveryHandlerFailed({ subject, seq, reason: messageOf(error) }, error));
    delivery.nak(handlerRetryMs);
  }
}

/** Durable reading with acknowledgements. */
import { messageOf } from "@muster/base";
import { type ConsumerInfo, JetStreamApiCodes, type JsMsg } from "@nats-io/jetstream";
import { errors } from "../errors.ts";
import { ackWaitDefaultMs, brokerStream, handlerRetryMs } from "../streams.ts";
import type { ConsumeOptions, Delivery, Subscription } from "../transport.ts";
import { keepReading } from "./keep-reading.ts";
import type { Link } from "./link.ts";
import { makeReader, readerName } from "./readers.ts";
import { isApiError } from "./translate.ts";

const pullMs = 30_000;
const heartbeatMs = 5_000;

/** A replica may come before whoever makes its consumer. */
const firstTimeoutMs = 30_000;

export function consume(link: Link, job: string, options: ConsumeOptions): Promise<Subscription> {
  const stream = brokerStream(job, options.stream);
  const place = new Place();
  const open = async (): ReturnType<typeof keepOpen> => {
    const info = await findOrMake(link, job, options, place.resumeSeq);
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
  return keepReading(link, `consumer ${options.consumer} of ${stream}`, open, firstTimeoutMs);
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

async function findOrMake(
  link: Link,
  job: string,
  options: ConsumeOptions,
  resumeSeq: number | null,
): Promise<ConsumerInfo> {
  const { stream, filter, maxPending, ackWaitMs = ackWaitDefaultMs } = options;
  const name = readerName(link, options.consumer);
  const make = () =>
    makeReader(link, job, {
      stream,
      name,
      filter,
      start: resumeSeq ?? options.deliver,
      ack: { maxPending, waitMs: ackWaitMs },
    });
  // Nobody else can have made one of that name.
  if (resumeSeq === null && link.role !== "controller") return await make();
  try {
    return await link.manager.consumers.info(brokerStream(job, stream), name);
  } catch (error) {
    if (!isApiError(error, JetStreamApiCodes.ConsumerNotFound)) throw error;
    return await make();
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

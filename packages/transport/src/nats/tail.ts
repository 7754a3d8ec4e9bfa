/**
 * Ordered reading without acknowledgements. The consumer on the broker is short-lived; this side remembers the next sequence and
 * opens another one after every disconnect and every gap in the deliveries, so each message is shown once.
 */
import { randomUUID } from "node:crypto";
import { messageOf } from "@muster/base";
import { AckPolicy, type ConsumerMessages, DeliverPolicy, type JsMsg } from "@nats-io/jetstream";
import { nanos } from "@nats-io/nats-core";
import { errors } from "../errors.ts";
import { brokerStream } from "../streams.ts";
import type { Subscription, TailOptions } from "../transport.ts";
import { keepReading } from "./keep-reading.ts";
import type { Link } from "./link.ts";

const inactiveMs = 30_000;
const pullBatch = 256;
const heartbeatMs = 5_000;

export async function tail(link: Link, job: string, options: TailOptions): Promise<Subscription> {
  const stream = brokerStream(job, options.stream);
  const what = `reading ${stream}`;
  let nextSeq = options.fromSeq === "new" ? await endOf(link, stream) : options.fromSeq;
  let current: ConsumerMessages | null = null;

  const show = (message: JsMsg): void => {
    nextSeq = message.seq + 1;
    const { seq, subject, data } = message;
    try {
      options.handle({ seq, subject, data });
    } catch (error) {
      link.report(errors.DeliveryHandlerFailed({ subject, seq, reason: messageOf(error) }, error));
    }
  };

  const open = async (): Promise<ConsumerMessages> => {
    const consumer = link.js.consumers.getConsumerFromInfo(await addReader(link, stream, nextSeq));
    let delivered = 0;
    const messages = await consumer.consume({
      max_messages: pullBatch,
      expires: inactiveMs,
      idle_heartbeat: heartbeatMs,
      abort_on_missing_resource: true,
      callback: (message) => {
        delivered += 1;
        if (message.info.deliverySequence !== delivered) messages.stop();
        else show(message);
      },
    });
    current = messages;
    return messages;
  };

  const stopWatching = link.onStatus((status) => {
    if (status.type === "disconnected") current?.stop();
  });
  const reading = await keepReading(link, what, open);
  return {
    async close() {
      stopWatching();
      await reading.close();
    },
  };
}

async function endOf(link: Link, stream: string): Promise<number> {
  const info = await link.call(`reading ${stream}`, () => link.manager.streams.info(stream));
  return info.state.last_seq + 1;
}

function addReader(link: Link, stream: string, seq: number) {
  return link.manager.consumers.add(stream, {
    name: `tail-${randomUUID()}`,
    deliver_policy: DeliverPolicy.StartSequence,
    opt_start_seq: Math.max(1, seq),
    ack_policy: AckPolicy.None,
    mem_storage: true,
    inactive_threshold: nanos(inactiveMs),
  });
}

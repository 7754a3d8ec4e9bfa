/**
 * Ordered reading without acknowledgements. The consumer on the broker is short-lived; this side remembers the next sequence and
 * opens another one after every disconnect and every gap in the deliveries, so each message is shown once.
 */
import { randomUUID } from "node:crypto";
import { messageOf } from "@muster/base";
import type { ConsumerMessages, JsMsg } from "@nats-io/jetstream";
import { errors } from "../errors.ts";
import { brokerStream } from "../streams.ts";
import type { Subscription, TailOptions } from "../transport.ts";
import { keepReading } from "./keep-reading.ts";
import type { Link } from "./link.ts";
import { makeReader, readerName } from "./readers.ts";

const pullMs = 30_000;
const pullBatch = 256;
const heartbeatMs = 5_000;

export async function tail(link: Link, job: string, options: TailOptions): Promise<Subscription> {
  const stream = brokerStream(job, options.stream);
  const what = `reading ${stream}`;
  let nextSeq = options.fromSeq;
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
    const name = readerName(link, `tail-${randomUUID()}`);
    const info = await makeReader(link, job, { stream: options.stream, name, filter: null, start: nextSeq, ack: null });
    if (nextSeq === "new") nextSeq = info.delivered.stream_seq + 1;
    const consumer = link.js.consumers.getConsumerFromInfo(info);
    let delivered = 0;
    const messages = await consumer.consume({
      max_messages: pullBatch,
      expires: pullMs,
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

/** The journal on JetStream: compare-and-set on the last sequence, reads through the stream's leader. */
import { randomUUID } from "node:crypto";
import { AckPolicy, DeliverPolicy, type JsMsg } from "@nats-io/jetstream";
import { nanos } from "@nats-io/nats-core";
import { errors } from "../errors.ts";
import { brokerStream, streamSubject } from "../streams.ts";
import type { Journal } from "../transport.ts";
import type { Link } from "./link.ts";
import { store } from "./store.ts";
import { isWrongId, isWrongSequence, NoAnswer } from "./translate.ts";

const readBatch = 256;
const readWaitMs = 2_000;

export function openJournal(link: Link, job: string): Journal {
  const stream = brokerStream(job, "journal");
  const subject = streamSubject(job, "journal");

  const head = async (): Promise<number> => {
    const info = await link.call("reading the head of the journal", () => link.manager.streams.info(stream));
    return info.state.last_seq;
  };

  const isOurs = async (seq: number, msgId: string): Promise<boolean> => {
    const record = await link.call("reading back the journal", () => link.manager.streams.getMessage(stream, { seq }));
    return record?.header.get("Nats-Msg-Id") === msgId;
  };

  const append: Journal["append"] = async (data, expectedSeq, msgId, expectedId) => {
    const lastId = expectedId === undefined ? {} : { lastMsgID: expectedId };
    try {
      return (await store(link, { subject, data, msgId, expect: { lastSequence: expectedSeq, ...lastId } })).seq;
    } catch (error) {
      if (!isWrongSequence(error) && !isWrongId(error)) throw error;
      const last = await head();
      if (last < expectedSeq) throw errors.JournalCut({ last, acknowledged: expectedSeq }, error);
      // What is refused may still be ours: stored by an attempt whose answer was lost.
      if (await isOurs(expectedSeq + 1, msgId)) return expectedSeq + 1;
      // A server that was started may know the id of its last message only while it would know a repeated one.
      const isForgotten = isWrongId(error) && expectedId !== undefined && (await isOurs(expectedSeq, expectedId));
      if (isForgotten) return await append(data, expectedSeq, msgId);
      throw errors.Fenced({ seq: Math.min(last, expectedSeq + 1) }, error);
    }
  };

  return {
    head,
    append,
    async *read(fromSeq) {
      const last = await head();
      for (let next = fromSeq; next <= last; ) {
        const batch = await link.call("reading the journal", () => readFrom(link, stream, next));
        if (batch.length === 0) return;
        for (const record of batch) {
          if (record.seq > last) return;
          yield { seq: record.seq, data: record.data, msgId: record.headers?.get("Nats-Msg-Id") ?? "" };
          next = record.seq + 1;
        }
      }
    },
  };
}

/** Reads up to one batch, complete and in order, or fails as a whole. Empty only when nothing is left from `seq` on. */
async function readFrom(link: Link, stream: string, seq: number): Promise<readonly JsMsg[]> {
  const info = await link.manager.consumers.add(stream, {
    name: `read-${randomUUID()}`,
    deliver_policy: DeliverPolicy.StartSequence,
    opt_start_seq: seq,
    ack_policy: AckPolicy.None,
    mem_storage: true,
    inactive_threshold: nanos(10_000),
  });
  const wanted = Math.min(readBatch, info.num_pending);
  if (wanted === 0) return [];
  const consumer = link.js.consumers.getConsumerFromInfo(info);
  const records: JsMsg[] = [];
  for await (const record of await consumer.fetch({ max_messages: wanted, expires: readWaitMs })) {
    if (record.info.deliverySequence !== records.length + 1) throw new NoAnswer("a record was lost on the way");
    records.push(record);
  }
  if (records.length < wanted) throw new NoAnswer(`got ${records.length} of ${wanted} records`);
  return records;
}

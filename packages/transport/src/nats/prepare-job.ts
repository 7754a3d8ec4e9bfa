/** What the controller makes sure of before a job runs: a closed broker, and streams that are exactly as the table says. */
import { isDeepStrictEqual } from "node:util";
import {
  AckPolicy,
  DeliverPolicy,
  DiscardPolicy,
  RetentionPolicy,
  StorageType,
  type StreamConfig,
} from "@nats-io/jetstream";
import { nanos } from "@nats-io/nats-core";
import { errors } from "../errors.ts";
import {
  ackWaitDefaultMs,
  brokerStream,
  duplicateWindowMs,
  type StreamBytes,
  type StreamName,
  stateBucket,
  stateBytesMax,
  streamNames,
  streamRules,
  streamSubject,
} from "../streams.ts";
import { acceptsAnonymous, type ConnectOptions, checkPayload, openLink } from "./connect.ts";
import type { Link } from "./link.ts";
import { isApiError } from "./translate.ts";

/** The durable consumer of the reports, made with the job so that no report is lost before the controller reads. */
export const controllerConsumer = "controller";

/** Bound of reports delivered to the controller and not yet acknowledged. */
const reportsPendingMax = 1_024;
const streamExistsCode = 10058;

/** {@link ConnectOptions} of the controller, and how many servers of a cluster keep each message. */
export interface PrepareOptions extends Omit<ConnectOptions, "name"> {
  /** 1 (default) or 3; 3 needs a cluster of three servers. */
  readonly replicas?: 1 | 3;
  /** Bytes that a stream may hold, where it is not what the table of streams says. */
  readonly bytesMax?: StreamBytes;
}

/**
 * Creates the streams, the `controller` consumer and the state bucket of a job, or checks those that exist. Harmless to repeat.
 *
 * @throws MUSTER_ERR_BROKER_OPEN when the broker takes connections without credentials: nothing is created then.
 * @throws MUSTER_ERR_STREAM_MISMATCH when an existing stream differs, naming the setting. More room than wanted is no difference, and
 *   less is none for the groups.
 * @throws the errors of {@link connectNats}
 */
export async function prepareJob(options: PrepareOptions): Promise<void> {
  const link = await openLink({ ...options, name: `controller.prepare.${process.pid}` });
  try {
    if (await acceptsAnonymous(options.url)) throw errors.BrokerOpen({ url: options.url });
    await checkPayload(link, options.url);
    const { bytesMax, replicas = 1 } = options;
    for (const name of streamNames) {
      const config = toStreamConfig(options.job, name, replicas);
      const rule = streamRules[name];
      await ensureStream(link, { ...config, max_bytes: bytesMax?.[name] ?? rule.bytesMax }, rule.mayHoldLess);
    }
    await ensureStream(link, toBucketConfig(options.job, replicas));
    await ensureController(link, options.job);
  } finally {
    await link.close();
  }
}

type WantedStream = Partial<StreamConfig> & { readonly name: string };

function toStreamConfig(job: string, name: StreamName, replicas: number): WantedStream {
  const rule = streamRules[name];
  return {
    name: brokerStream(job, name),
    subjects: [streamSubject(job, name)],
    retention: rule.retention === "queue" ? RetentionPolicy.Workqueue : RetentionPolicy.Limits,
    discard: rule.discard === "new" ? DiscardPolicy.New : DiscardPolicy.Old,
    max_consumers: rule.consumersMax,
    max_msgs_per_subject: rule.perSubjectMax ?? -1,
    discard_new_per_subject: rule.perSubjectMax !== undefined,
    max_age: nanos(rule.ageMaxMs ?? 0),
    deny_delete: rule.denyDelete,
    allow_direct: rule.direct,
    duplicate_window: nanos(duplicateWindowMs),
    storage: StorageType.File,
    num_replicas: replicas,
  };
}

/** The stream below a key-value bucket with one revision per key, as every NATS tool expects it. */
function toBucketConfig(job: string, replicas: number): WantedStream {
  const bucket = stateBucket(job);
  return {
    name: `KV_${bucket}`,
    subjects: [`$KV.${bucket}.>`],
    retention: RetentionPolicy.Limits,
    discard: DiscardPolicy.New,
    max_msgs_per_subject: 1,
    max_bytes: stateBytesMax,
    deny_delete: true,
    allow_rollup_hdrs: true,
    allow_direct: false,
    duplicate_window: nanos(duplicateWindowMs),
    storage: StorageType.File,
    num_replicas: replicas,
  };
}

async function ensureStream(link: Link, wanted: WantedStream, mayHoldLess = false): Promise<void> {
  const info = await link.call(`creating stream ${wanted.name}`, async () => {
    try {
      return await link.manager.streams.add({ ...wanted });
    } catch (error) {
      if (!isApiError(error, streamExistsCode)) throw error;
      return await link.manager.streams.info(wanted.name);
    }
  });
  const found: Readonly<Record<string, unknown>> = { ...info.config };
  for (const [field, value] of Object.entries(wanted)) {
    if (isDeepStrictEqual(found[field] ?? absentValue(value), value)) continue;
    if ((field === "max_bytes" || field === "max_consumers") && isRaised(found[field], value)) continue;
    if (field === "max_bytes" && mayHoldLess) continue;
    throw errors.StreamMismatch({
      stream: wanted.name,
      field,
      found: JSON.stringify(found[field] ?? null),
      wanted: JSON.stringify(value),
    });
  }
}

/** An operator may give a stream more room than it was made with. */
function isRaised(found: unknown, wanted: unknown): boolean {
  return Number(found) === -1 || Number(found) > Number(wanted);
}

/** The server leaves out settings that are off. */
function absentValue(wanted: unknown): unknown {
  return typeof wanted === "boolean" ? false : typeof wanted === "number" ? 0 : undefined;
}

async function ensureController(link: Link, job: string): Promise<void> {
  await link.call("creating the controller's consumer", () =>
    link.manager.consumers.add(brokerStream(job, "reports"), {
      durable_name: controllerConsumer,
      filter_subject: streamSubject(job, "reports"),
      deliver_policy: DeliverPolicy.All,
      ack_policy: AckPolicy.Explicit,
      ack_wait: nanos(ackWaitDefaultMs),
      max_ack_pending: reportsPendingMax,
    }),
  );
}

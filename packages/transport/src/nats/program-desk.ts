/**
 * The desk for programs with any client library: what they ask of the broker's API about consumers comes here instead. It makes what they ask for as far
 * as that only reads what their role may read, and only for their own inbox; the broker itself would take their word for where a consumer delivers to.
 */
import { createHash, randomUUID } from "node:crypto";
import { messageOf } from "@muster/base";
import {
  AckPolicy,
  type ConsumerConfig,
  type ConsumerInfo,
  type DeliverPolicy,
  JetStreamApiError,
} from "@nats-io/jetstream";
import { type Msg, nanos } from "@nats-io/nats-core";
import { z } from "zod";
import { type BrokerRole, brokerRoles, programStreams } from "../server/roles.ts";
import { readersSubject } from "../streams.ts";
import { inboxPrefixOf } from "./credentials.ts";
import type { DeskQueue } from "./desk-queue.ts";
import type { Link } from "./link.ts";
import { translate } from "./translate.ts";

const questionBytesMax = 8_192;
const inactiveMs = { least: 1_000, usual: 300_000, most: 3_600_000 };
const ackWaitMs = { least: 100, most: 3_600_000 };
const pendingMax = 65_536;
const filtersMax = 64;

const unavailable = 503;
const badRequest = 400;
const notFound = 404;
/** Codes of the broker for what a program can understand of it. */
const codes = { busy: 10023, invalid: 10003, absent: 10014 };
/** By what the desk knows again what it made for a role. */
const madeFor = "muster-made-for";

/** What an answer of the broker's API is, beside its type. */
type ApiAnswer = Partial<ConsumerInfo> & {
  readonly success?: boolean;
  readonly error?: { readonly code: number; readonly err_code: number; readonly description: string };
};

/** A row for what a role asks. */
export type ProgramRows = ReadonlyMap<string, DeskQueue<unknown>>;

/** Answers until the link is closed. */
export function servePrograms(link: Link, job: string, rows: ProgramRows): void {
  link.connection.subscribe(`${readersSubject(job, "*")}.>`, {
    queue: "desk",
    callback: (error, message) => {
      if (error) return link.report(translate(error, "the desk for programs"));
      answer({ link, job, rows }, message).catch((cause: unknown) =>
        link.report(translate(cause, "answering a program at the desk")),
      );
    },
  });
}

interface Desk {
  readonly link: Link;
  readonly job: string;
  readonly rows: ProgramRows;
}

async function answer({ link, job, rows }: Desk, message: Msg): Promise<void> {
  const asked = questionOf(job, message);
  const said = "verb" in asked ? await worked(link, asked, rows) : asked;
  const type = `io.nats.jetstream.api.v1.consumer_${"verb" in asked && asked.verb === "DELETE" ? "delete" : "create"}_response`;
  if (!link.isClosed) message.respond(JSON.stringify({ type, ...said }));
}

interface Question {
  readonly role: BrokerRole;
  readonly verb: "CREATE" | "DELETE";
  readonly stream: string;
  readonly name: string;
  readonly data: Uint8Array;
  /** Tells questions of a row apart: the same one again is one question. */
  readonly key: string;
}

/** What is asked; role, verb and stream stand in the subject, which the broker has checked. */
function questionOf(job: string, message: Msg): Question | ApiAnswer {
  const [, , , said, verb, stream = "", name = ""] = message.subject.split(".");
  const role = brokerRoles.find((each) => each === said);
  if (!role || !programStreams(job, role).includes(stream)) return refusal(`${said} may not read ${stream}`);
  if (verb !== "CREATE" && verb !== "DELETE") return refusal(`${verb} is not done here`);
  if (message.data.byteLength > questionBytesMax)
    return refusal(`the question has more than ${questionBytesMax} bytes`);
  const key = `${verb} ${stream} ${name} ${createHash("sha256").update(message.data).digest("hex")}`;
  return { role, verb, stream, name, data: message.data, key: name === "" ? `${key} ${message.reply}` : key };
}

async function worked(link: Link, question: Question, rows: ProgramRows): Promise<ApiAnswer> {
  const said = await rows.get(question.role)?.ask(performance.now(), question.key, () => work(link, question));
  const { retryMs } = said as { readonly retryMs?: number };
  if (retryMs === undefined) return said as ApiAnswer;
  return fault(unavailable, codes.busy, `too many ask: ask again in ${retryMs} ms`);
}

async function work(link: Link, question: Question): Promise<ApiAnswer> {
  try {
    return question.verb === "CREATE" ? await create(link, question) : await remove(link, question);
  } catch (error) {
    if (error instanceof JetStreamApiError) return { error: error.apiError() };
    return fault(unavailable, codes.busy, messageOf(error));
  }
}

async function create(link: Link, { role, stream, name, data }: Question): Promise<ApiAnswer> {
  const asked = readConfig(stream, data);
  if (typeof asked === "string") return refusal(asked);
  const own = name || asked.name || asked.durable_name || `${role}-${randomUUID()}`;
  const inbox = inboxPrefixOf(role, "");
  if (!/^[A-Za-z0-9_-]{1,240}$/.test(own)) return refusal("a name has letters, digits, - and _");
  if (asked.deliver_subject !== undefined && !isInboxBelow(inbox, asked.deliver_subject))
    return refusal(`deliver_subject must be an inbox: ${inbox}<id>.<name>`);
  return await link.manager.consumers.add(stream, configOf(asked, { role, name: own }));
}

/** A subject of one inbox of a role, and no pattern. */
function isInboxBelow(prefix: string, subject: string): boolean {
  return subject.startsWith(prefix) && /^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)+$/.test(subject.slice(prefix.length));
}

async function remove(link: Link, { role, stream, name }: Question): Promise<ApiAnswer> {
  const { config } = await link.manager.consumers.info(stream, name);
  if (config.metadata?.[madeFor] !== role) return fault(notFound, codes.absent, "consumer not found");
  return { success: await link.manager.consumers.delete(stream, name) };
}

const nanosSchema = z.number().int().nonnegative();
const subjectText = z.string().min(1).max(256);

/** The settings that programs may choose. What else client libraries send is for the desk to set, or changes nothing for who only reads. */
const configSchema = z.looseObject({
  name: z.string().optional(),
  durable_name: z.string().optional(),
  deliver_subject: z.string().max(256).optional(),
  deliver_policy: z
    .enum(["all", "last", "new", "by_start_sequence", "by_start_time", "last_per_subject"])
    .default("all"),
  opt_start_seq: z.number().int().positive().optional(),
  opt_start_time: z.string().max(64).optional(),
  filter_subject: subjectText.optional(),
  filter_subjects: z.array(subjectText).max(filtersMax).optional(),
  ack_policy: z.enum(["none", "all", "explicit"]).default("explicit"),
  ack_wait: nanosSchema.optional(),
  max_deliver: z.number().int().optional(),
  max_ack_pending: z.number().int().optional(),
  inactive_threshold: nanosSchema.optional(),
  idle_heartbeat: nanosSchema.optional(),
  flow_control: z.boolean().optional(),
  headers_only: z.boolean().optional(),
});

type Asked = z.infer<typeof configSchema>;

/** A question, and no answer of the broker that was sent here: those have a type. */
const questionSchema = z.looseObject({
  stream_name: z.string(),
  action: z.enum(["", "create"]).optional(),
  type: z.undefined().optional(),
  config: configSchema,
});

function readConfig(stream: string, data: Uint8Array): Asked | string {
  let value: unknown;
  try {
    value = JSON.parse(new TextDecoder().decode(data));
  } catch (error) {
    return messageOf(error);
  }
  const read = questionSchema.safeParse(value);
  if (read.success)
    return read.data.stream_name === stream ? read.data.config : `stream_name must be ${stream}, as in the subject`;
  const [issue] = read.error.issues;
  return `${issue?.path.join(".")}: ${issue?.message}`;
}

function configOf(
  asked: Asked,
  { role, name }: { readonly role: BrokerRole; readonly name: string },
): Partial<ConsumerConfig> {
  const { durable_name: durable, deliver_subject: deliver } = asked;
  const chosen = {
    ...given(asked, ["deliver_subject", "opt_start_seq", "opt_start_time", "filter_subject", "filter_subjects"]),
    ...given(asked, ["max_deliver", "headers_only"]),
    ...(deliver === undefined ? {} : given(asked, ["idle_heartbeat", "flow_control"])),
  };
  const acknowledged = {
    ack_wait: within(asked.ack_wait, { ...ackWaitMs, usual: 30_000 }),
    max_ack_pending: Math.min(Math.max(1, asked.max_ack_pending ?? 1_000), pendingMax),
  };
  return {
    ...chosen,
    deliver_policy: asked.deliver_policy as DeliverPolicy,
    ack_policy: asked.ack_policy as AckPolicy,
    ...(asked.ack_policy === AckPolicy.None ? {} : acknowledged),
    name,
    ...(durable === undefined ? {} : { durable_name: durable }),
    inactive_threshold: within(asked.inactive_threshold, inactiveMs),
    mem_storage: true,
    metadata: { [madeFor]: role },
  };
}

/** Those of some settings that were asked for. */
function given(asked: Asked, keys: readonly (keyof Asked & keyof ConsumerConfig)[]): Partial<ConsumerConfig> {
  return Object.fromEntries(keys.flatMap((key) => (asked[key] === undefined ? [] : [[key, asked[key]]])));
}

interface Span {
  readonly least: number;
  readonly usual: number;
  readonly most: number;
}

/** Nanoseconds as asked, in their bounds. */
function within(asked: number | undefined, { least, usual, most }: Span): number {
  return asked ? Math.min(Math.max(asked, nanos(least)), nanos(most)) : nanos(usual);
}

function refusal(description: string): ApiAnswer {
  return fault(badRequest, codes.invalid, description);
}

function fault(code: number, err_code: number, description: string): ApiAnswer {
  return { error: { code, err_code, description } };
}

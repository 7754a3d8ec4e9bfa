/** The desk: makes consumers for the roles that can not, as far as each may read. Runs wherever the controller's credentials are. */
import { messageOf } from "@muster/base";
import { JetStreamApiError } from "@nats-io/jetstream";
import type { Msg } from "@nats-io/nats-core";
import { brokerRoles, streamsReadBy } from "../server/roles.ts";
import { deskSubject, streamSubject } from "../streams.ts";
import { DeskQueue } from "./desk-queue.ts";
import type { Link } from "./link.ts";
import { servePrograms } from "./program-desk.ts";
import { addReader, type DeskAnswer, type ReaderRequest } from "./readers.ts";
import { isApiError, translate } from "./translate.ts";

const questionBytesMax = 2_048;
/**
 * Consumers that one role gets. A whole fleet may come at once, and 64 a second after that: who never stops asking has half of what the stream of
 * commands takes at most, since a consumer that nobody reads goes after five minutes. A question waits for no longer than its asker.
 */
const row = { atOnce: 16, waitMaxMs: 1_000, waitingMax: 16_384, burst: 12_288, perSecond: 64 };
const pendingMax = 65_536;
const ackWaitMaxMs = 3_600_000;

/** The broker's code for a stream that has all the consumers it may have. Those of who is gone go by themselves. */
const consumersFullCode = 10026;
const fullRetryMs = 5_000;

const unavailable = 503;
const refusedStatus = 400;
/** No code of the broker. */
const deskCode = 0;

/** Answers until the link is closed. Every process that does shares the questions with the others. */
export function serveDesk(link: Link, job: string): void {
  const rows = new Map<string, DeskQueue<DeskAnswer>>(brokerRoles.map((role) => [role, new DeskQueue(row)]));
  servePrograms(link, job, new Map(brokerRoles.map((role) => [role, new DeskQueue(row)])));
  link.connection.subscribe(deskSubject(job, "*", "*"), {
    queue: "desk",
    callback: (error, message) => {
      if (error) return link.report(translate(error, "the desk"));
      answer(link, job, message, rows).catch((cause: unknown) =>
        link.report(translate(cause, "answering at the desk")),
      );
    },
  });
}

type Rows = ReadonlyMap<string, DeskQueue<DeskAnswer>>;

async function answer(link: Link, job: string, message: Msg, rows: Rows): Promise<void> {
  const [role = "", id = ""] = message.subject.split(".").slice(-2);
  const row = rows.get(role);
  const request = readRequest({ job, role, id }, message.data);
  const said =
    typeof request === "string" || !row
      ? refusal(refusedStatus, String(request))
      : await row.ask(performance.now(), `${request.stream} ${request.name}`, () => serve(link, job, request));
  if (!link.isClosed) message.respond(JSON.stringify(said));
}

async function serve(link: Link, job: string, request: ReaderRequest): Promise<DeskAnswer> {
  try {
    return { info: await addReader(link, job, request) };
  } catch (error) {
    if (isApiError(error, consumersFullCode)) return { retryMs: fullRetryMs };
    if (error instanceof JetStreamApiError) return { error: error.apiError() };
    return refusal(unavailable, messageOf(error));
  }
}

function refusal(code: number, description: string): DeskAnswer {
  return { error: { code, err_code: deskCode, description } };
}

/** Who asks; the broker has checked role and id. */
interface Asker {
  readonly job: string;
  readonly role: string;
  readonly id: string;
}

/** Reads a question of a role. @returns The consumer that it may have, or what is wrong. */
function readRequest(asker: Asker, data: Uint8Array): ReaderRequest | string {
  const { role, id } = asker;
  if (data.byteLength > questionBytesMax) return `the question has more than ${questionBytesMax} bytes`;
  const asked = parse(data);
  if (!asked) return "the question is no object of JSON";
  const { stream, name, filter, start, ack } = asked;
  const readable = brokerRoles.filter((each) => each === role && each !== "controller").flatMap(streamsReadBy);
  const own = readable.find((each) => each === stream);
  if (!own) return `${role} may not read ${String(stream)}`;
  if (typeof name !== "string" || !isNameOf(asker, name))
    return `name must be "${role}-${id}-", letters, digits, "-" and "_"`;
  if (own === "commands" ? filter !== commandsOf(asker) : filter !== null)
    return own === "commands" ? `filter must be "${commandsOf(asker)}"` : "filter must be null";
  if (start !== "new" && start !== "all" && !isWithin(start, Number.MAX_SAFE_INTEGER))
    return "start must be a sequence";
  const pending = readAck(ack);
  if (pending === undefined) return "ack must hold maxPending and waitMs in their bounds";
  return { stream: own, name, filter: own === "commands" ? String(filter) : null, start, ack: pending };
}

function parse(data: Uint8Array): Readonly<Record<string, unknown>> | null {
  try {
    const value: unknown = JSON.parse(new TextDecoder().decode(data));
    return typeof value === "object" && value !== null ? (value as Readonly<Record<string, unknown>>) : null;
  } catch {
    return null;
  }
}

function isNameOf({ role, id }: Asker, name: string): boolean {
  return name.startsWith(`${role}-${id}-`) && /^[A-Za-z0-9_-]{1,240}$/.test(name);
}

function commandsOf({ job, id }: Asker): string {
  return streamSubject(job, "commands").replace(">", `${id}.>`);
}

function readAck(ack: unknown): ReaderRequest["ack"] | undefined {
  if (ack === null) return null;
  const { maxPending, waitMs } = (typeof ack === "object" ? ack : {}) as Readonly<Record<string, unknown>>;
  return isWithin(maxPending, pendingMax) && isWithin(waitMs, ackWaitMaxMs) ? { maxPending, waitMs } : undefined;
}

function isWithin(value: unknown, max: number): value is number {
  return Number.isInteger(value) && Number(value) >= 1 && Number(value) <= max;
}

/** The routes of APIs that are translated to chat completions: with them an agent keeps the client library that it has. */
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import type { Dialect, EventWriter, Table } from "../core/dialect.ts";
import { messagesApi } from "../core/messages-api.ts";
import { responsesApi } from "../core/responses-api.ts";
import { begun, type StreamTimes, sendAnswer } from "./answer-stream.ts";
import { tableIn } from "./bodies.ts";
import { type Grow, GrowingAnswer } from "./growing-answer.ts";
import { scopedTo } from "./http-app.ts";

/** All of them. */
export const dialects: readonly Dialect[] = [messagesApi, responsesApi];

/** What the routes work with. */
export interface DialectTools {
  /** Asks an engine, until this client leaves; as a stream where somebody hears of its pieces. @throws Refused */
  readonly draw: (
    body: Table,
    headers: FastifyRequest["headers"],
    client: FastifyReply["raw"],
    grow?: Grow,
  ) => Promise<Table>;
  readonly stream: StreamTools;
  /** Work that the end of the router waits for. */
  readonly running: Set<Promise<unknown>>;
}

/** What streams need besides. */
export interface StreamTools extends StreamTimes {
  /** Hears why a stream broke off that no client and no engine is to blame for. */
  readonly failed: (error: unknown) => void;
  /** Hears why the answer to a turn is asked for anew. */
  readonly brokeOff: (error: Error) => void;
}

/** Adds the routes of the router itself. */
export function addDialectRoutes(app: FastifyInstance, { draw, running, stream }: DialectTools): void {
  for (const dialect of dialects)
    app.post(dialect.path, scopedTo("inference", dialect.errorOf), async ({ body, headers }, reply) => {
      const request = tableIn(body);
      const { stream: isStream, ...chat } = dialect.chatOf(request);
      const growing = isStream === true ? new GrowingAnswer() : null;
      const answer = draw({ ...chat, stream: growing !== null }, headers, reply.raw, growing?.grow);
      running.add(answer);
      const answered = answer.finally(() => running.delete(answer));
      if (!growing) return sendWhole(reply, dialect.answerOf(await answered, request));
      growing.follow(answered);
      return await sendStream(reply, growing, dialect.eventsOf(request), { ...stream, running });
    });
}

/** Answers with JSON. */
export function sendWhole(reply: FastifyReply, answer: Table): FastifyReply {
  return reply.type("application/json").send(JSON.stringify(answer));
}

/** Answers with events, while the answer grows. @throws what failed before anything left */
export async function sendStream(
  reply: FastifyReply,
  growing: GrowingAnswer,
  events: EventWriter,
  { running, failed, stallMs, pingMs }: StreamTools & Pick<DialectTools, "running">,
): Promise<FastifyReply> {
  await begun(growing);
  reply.hijack();
  const sent = sendAnswer(reply.raw, growing, events, { stallMs, pingMs });
  running.add(sent);
  // Nobody else answers a stream that has begun: one that the router itself can not write breaks off, and does not just stand still.
  const error = await sent
    .catch((thrown: unknown) => {
      reply.raw.destroy();
      return thrown;
    })
    .finally(() => running.delete(sent));
  if (error !== null) failed(error);
  return reply;
}

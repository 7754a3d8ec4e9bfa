/** The doors of APIs that are translated to chat completions: with them an agent keeps the client library that it has. */
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import type { Dialect, Table } from "../core/dialect.ts";
import { messagesApi } from "../core/messages-api.ts";
import { responsesApi } from "../core/responses-api.ts";
import { tableIn } from "./bodies.ts";
import { doorOf } from "./http-app.ts";

/** All of them. */
export const dialects: readonly Dialect[] = [messagesApi, responsesApi];

/** What the doors work with. */
export interface DialectTools {
  /** Asks an engine, until this client leaves. @throws Refused */
  readonly draw: (body: Table, headers: FastifyRequest["headers"], client: FastifyReply["raw"]) => Promise<Table>;
  /** Work that the end of the router waits for. */
  readonly running: Set<Promise<unknown>>;
}

/** Adds the doors of the router itself. */
export function addDialectDoors(app: FastifyInstance, { draw, running }: DialectTools): void {
  for (const dialect of dialects)
    app.post(dialect.path, doorOf("inference", dialect.errorOf), async ({ body, headers }, reply) => {
      const drawn = async (chat: Table): Promise<Table> => {
        const answer = draw({ ...chat, stream: false }, headers, reply.raw);
        running.add(answer);
        return await answer.finally(() => running.delete(answer));
      };
      return await answerIn(dialect, tableIn(body), reply, drawn);
    });
}

/** Answers a request of a dialect with what `drawn` gives for its chat request. A stream is the whole answer in its events. */
export async function answerIn(
  dialect: Dialect,
  request: Table,
  reply: FastifyReply,
  drawn: (chat: Table) => Promise<Table>,
): Promise<FastifyReply> {
  const chat = dialect.chatOf(request);
  const answer = dialect.answerOf(await drawn(chat), request);
  return chat.stream === true
    ? reply.type("text/event-stream").send(dialect.eventsOf(answer))
    : reply.type("application/json").send(JSON.stringify(answer));
}

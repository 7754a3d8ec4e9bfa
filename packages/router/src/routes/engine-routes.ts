/**
 * The engine routes. They stand in front of the framework: nearly all requests come here, and need none of what it does. What they check,
 * and what they answer to what they refuse, is the same as behind it (docs/decisions/0041-the-router.md).
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import { type EngineRoute, engineRoutes, type Headers } from "../core/parse-request.ts";
import { bodyOfReply, type ReplyCode } from "../core/reply.ts";
import type { Bodies } from "./bodies.ts";
import { checkHead, type Tokens } from "./guard.ts";
import { refusalOf } from "./refusal.ts";

/** A request whose body has arrived. */
export interface Asked {
  readonly route: EngineRoute;
  readonly bytes: Buffer;
  readonly headers: Headers;
}

/** Answers a request, now or later. What it throws at once is the answer. @throws Refused */
export type AnswerEngineRoute = (asked: Asked, response: ServerResponse) => void;

/** What the routes work with. */
export interface EngineRouteOptions {
  readonly host: string;
  readonly tokens: Tokens;
  readonly limits: { readonly bodyBytesMax: number; readonly clientStallMs: number };
  readonly bodies: Bodies;
  readonly answer: AnswerEngineRoute;
  readonly refused: (code: ReplyCode) => void;
  readonly failed: (error: unknown) => void;
}

const routes: ReadonlyMap<string, EngineRoute> = new Map(engineRoutes.map((route) => [route, route]));

/** The engine route of a request; `null` for a request that is for the framework. */
export function engineRouteOf({ method, url = "" }: IncomingMessage): EngineRoute | null {
  if (method !== "POST") return null;
  const end = url.indexOf("?");
  return routes.get(end < 0 ? url : url.slice(0, end)) ?? null;
}

/** Lets one request in, or refuses it. */
export async function enter(
  options: EngineRouteOptions,
  route: EngineRoute,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const { headers } = request;
  try {
    checkHead(headers, "inference", options);
    const bytes = await options.bodies.read(request, response);
    options.answer({ route, bytes, headers }, response);
  } catch (error) {
    if (!response.destroyed) refuse(options, error, response);
  }
}

function refuse({ limits, refused, failed }: EngineRouteOptions, error: unknown, response: ServerResponse): void {
  const { reply, headers } = refusalOf(error, limits);
  if (reply.status === 500) failed(error);
  refused(reply.code);
  const body = bodyOfReply(reply);
  // Of its socket, which knows how much of a large piece has left.
  response.setTimeout(limits.clientStallMs, () => response.destroy());
  response.writeHead(reply.status, { ...headers, "content-length": Buffer.byteLength(body) });
  response.end(body);
}

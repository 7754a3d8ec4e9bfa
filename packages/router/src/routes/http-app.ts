/** A server with the limits and the form of errors that all routes of this package have: the engine routes in front, fastify for all others. */
import * as http from "node:http";
import * as https from "node:https";
import type { Socket } from "node:net";
import { noRequestOf, rawAnswer } from "@muster/http";
import { type FastifyInstance, type FastifyRequest, fastify } from "fastify";
import { bodyOfReply, Refused, type Reply, type ReplyCode } from "../core/reply.ts";
import { Bodies, type BodyBounds } from "./bodies.ts";
import { type AnswerEngineRoute, type EngineRouteOptions, engineRouteOf, enter } from "./engine-routes.ts";
import { checkHead, type Scope, type Tokens } from "./guard.ts";
import { refusalOf } from "./refusal.ts";

/** Limits of a server. */
export interface HttpLimits extends BodyBounds {
  readonly connectionsMax: number;
  /** For a whole request to arrive. */
  readonly receiveMs: number;
  /** A client that takes nothing of its answer for so long is cut off. */
  readonly clientStallMs: number;
}

/** What a server is made from. */
export interface HttpAppOptions {
  readonly host: string;
  /** Certificate and key, as PEM; `null` for plain HTTP. */
  readonly tls: { readonly cert: string; readonly key: string } | null;
  readonly tokens: Tokens;
  readonly limits: HttpLimits;
  /** Answers the engine routes, of a server that has them. */
  readonly answer?: AnswerEngineRoute;
  /** Hears of what this server refuses by itself. */
  readonly refused: (code: ReplyCode) => void;
  readonly failed: (error: unknown) => void;
}

/** Options of a route whose callers need this scope. The package keeps its own type of them: fastify's is one for all packages of a program. */
export function scopedTo(scope: Scope, errorOf?: ErrorForm): { readonly config: Readonly<Record<string, unknown>> } {
  return { config: { scope, errorOf } };
}

/** Body of an error, for routes whose API has a form of its own. */
type ErrorForm = (reply: Reply) => string;

/** A request with the response that its body is counted for. */
type Answered = FastifyRequest & { answer: http.ServerResponse };

const headerBytesMax = 16_384;
const noRequestCodes = { 400: "invalid_request", 408: "timeout", 431: "too_large" } as const;

/** Makes a server with no routes but those of the engine. A body arrives as a Buffer. Routes say their scope in `config`; without one they need the admin's token. */
export function openHttpApp({ tls, answer, ...options }: HttpAppOptions): FastifyInstance {
  const { host, tokens, limits, refused, failed } = options;
  const bodies = new Bodies(limits);
  const front: EngineRouteOptions | null = answer === undefined ? null : { ...options, bodies, answer };
  const app = fastify({
    serverFactory: (handler) =>
      openServer({ tls, limits }, (request, response) => {
        if (response.socket === null) closeWith(request.socket, response);
        const route = engineRouteOf(request);
        if (front === null || route === null) handler(request, response);
        else void enter(front, route, request, response);
      }),
    ...{ logger: false, return503OnClosing: false, forceCloseConnections: true, exposeHeadRoutes: false },
    ...{ bodyLimit: limits.bodyBytesMax, routerOptions: { maxParamLength: 512 } },
    clientErrorHandler(error, socket) {
      const said = noRequestOf(error.code, { headerBytesMax, receiveMs: limits.receiveMs });
      const reply: Reply = { ...said, code: noRequestCodes[said.status] };
      refused(reply.code);
      if (!socket.writable || socket.destroyed) return void socket.destroy();
      socket.end(rawAnswer(reply.status, bodyOfReply(reply)));
    },
  }) as FastifyInstance;
  app.server.maxConnections = limits.connectionsMax;
  app.removeAllContentTypeParsers();
  app.decorateRequest("answer", null);
  app.addContentTypeParser("*", (request: FastifyRequest) => bodies.read(request.raw, (request as Answered).answer));
  // Hooks with a callback: each promise would cost every request a turn.
  app.addHook("onRequest", (request: FastifyRequest, { raw }, done) => {
    (request as Answered).answer = raw;
    const { headers, routeOptions } = request;
    try {
      checkHead(headers, scopeOf(routeOptions.config), { host, tokens });
    } catch (error) {
      return void done(error as Error);
    }
    done();
  });
  app.addHook("onSend", (_, { raw }, __, done) => {
    // Of its socket, which knows how much of a large piece has left.
    raw.setTimeout(limits.clientStallMs, () => raw.destroy());
    done();
  });
  app.setNotFoundHandler(async (request) => {
    throw new Refused({ status: 404, code: "not_found", message: `${request.method} ${pathOf(request)} is not known` });
  });
  app.setErrorHandler(async (error: unknown, { routeOptions }, reply) => {
    const { reply: answer, headers } = refusalOf(error, limits);
    if (answer.status === 500) failed(error);
    refused(answer.code);
    const { errorOf = bodyOfReply } = routeOptions.config as { readonly errorOf?: ErrorForm };
    return reply.code(answer.status).headers(headers).send(errorOf(answer));
  });
  return app;
}

function openServer(
  { tls, limits }: Pick<HttpAppOptions, "tls" | "limits">,
  listener: http.RequestListener,
): http.Server {
  const options: http.ServerOptions = {
    ...{ maxHeaderSize: headerBytesMax, headersTimeout: Math.min(10_000, limits.receiveMs) },
    ...{ requestTimeout: limits.receiveMs, keepAliveTimeout: 75_000 },
    // How often Node looks for requests that are late; every 30 s by itself.
    connectionsCheckingInterval: 1_000,
  };
  return tls === null ? http.createServer(options, listener) : https.createServer({ ...options, ...tls }, listener);
}

/** Responses that wait in line for the one before them, by the socket that they will have. */
const inLine = new WeakMap<Socket, Set<http.ServerResponse>>();

/** Closes a response that waits in line when its socket closes: Node tells only the one whose turn it is. */
function closeWith(socket: Socket, response: http.ServerResponse): void {
  let waiting = inLine.get(socket);
  if (!waiting) {
    const all = new Set<http.ServerResponse>();
    waiting = all;
    inLine.set(socket, all);
    // One listener for all of them: a client may send a thousand requests at once.
    socket.once("close", () => {
      for (const one of [...all].filter((each) => each.socket === null)) {
        one.destroy();
        one.emit("close");
      }
    });
  }
  waiting.add(response);
  response.once("close", () => waiting.delete(response));
}

function scopeOf(config: object): Scope {
  return (config as { readonly scope?: Scope }).scope ?? "admin";
}

function pathOf({ url }: FastifyRequest): string {
  return (url.split("?", 1)[0] ?? "").slice(0, 100);
}

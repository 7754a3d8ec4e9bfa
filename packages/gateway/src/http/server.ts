/** The HTTP edge: checks every request before anything looks at it, and answers each with a status and one sentence. */
import type { AddressInfo } from "node:net";
import { type Clock, type Logger, messageOf } from "@muster/base";
import { isNestedTooDeep, nestingMax, noRequestOf, rawAnswer } from "@muster/http";
import fastify, { type FastifyError, type FastifyInstance, type FastifyReply, type FastifyRequest } from "fastify";
import type { z } from "zod";
import type { Coordinator } from "../coordinator.ts";
import type { Refusal } from "../topology/state.ts";
import { checkPlace, checkToken, type Grant, RateLimit } from "./guard.ts";
import { openApiOf } from "./openapi.ts";
import { type Route, routes, type Scope } from "./routes.ts";

/** What the edge is made from. */
export interface HttpOptions {
  readonly coordinator: Coordinator;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Nobody needs a token when there are none. */
  readonly grants: readonly Grant[];
  readonly hosts: readonly string[];
  readonly origins: readonly string[];
  /** Bytes. */
  readonly bodyMax: number;
  readonly rate: { readonly perSecond: number; readonly burst: number };
  readonly tls: { readonly cert: string; readonly key: string } | null;
  /** Text of `/metrics`. */
  readonly metrics: () => string;
  /** Hears of every answer. */
  readonly onAnswer: (route: string, status: number, seconds: number) => void;
  /** Wall time in seconds since 1970. */
  readonly wallSeconds: () => number;
}

/** Prefixes under which everything is served. */
const prefixes = ["", "/dcs_coordinator"];

const connectionsMax = 16_384;
const headerBytesMax = 16_384;
const receiveMs = 30_000;
/** Node.js has no sentence for a request without a host; what is asked for in its place has one. */
const parsing = { requireHostHeader: false, maxHeaderSize: headerBytesMax };
const json = "application/json; charset=utf-8";

/** The application, not listening yet. */
export function createHttp(options: HttpOptions): FastifyInstance {
  const app = fastify({
    bodyLimit: options.bodyMax,
    exposeHeadRoutes: false,
    requestTimeout: receiveMs,
    clientErrorHandler(error, socket) {
      if (!socket.writable || socket.destroyed) return void socket.destroy();
      const refusal = noRequestOf(error.code, { headerBytesMax, receiveMs });
      socket.end(rawAnswer(refusal.status, bodyOf(refusal)));
    },
    keepAliveTimeout: 75_000,
    forceCloseConnections: true,
    routerOptions: { maxParamLength: 100 },
    ...(options.tls === null ? { http: parsing } : { https: { ...options.tls, ...parsing } }),
  }) as FastifyInstance;
  app.server.maxConnections = connectionsMax;
  app.server.headersTimeout = 15_000;
  readJson(app);
  guard(app, options);
  app.setErrorHandler((error: FastifyError, _request, reply) => refuseWith(reply, refusalOf(error, options)));
  app.setNotFoundHandler((request, reply) => refuseWith(reply, unknownPath(request, reply)));
  for (const prefix of prefixes) {
    for (const route of routes) addRoute(app, route, { prefix, options });
    const description = JSON.stringify(openApiOf(routes));
    addText(app, `${prefix}/openapi.json`, { type: json, text: () => description });
    addText(app, `${prefix}/metrics`, { type: "text/plain; version=0.0.4; charset=utf-8", text: options.metrics });
  }
  return app;
}

/** Port on which a listening application is reached. */
export function portOf(app: FastifyInstance): number {
  return (app.server.address() as AddressInfo).port;
}

/** Bodies are JSON or nothing; an empty one is nothing, whatever it calls itself. */
function readJson(app: FastifyInstance): void {
  app.removeAllContentTypeParsers();
  app.addContentTypeParser("application/json", { parseAs: "string" }, (_request, body, done) => {
    if (isNestedTooDeep(body as string)) {
      const message = `body: it is nested deeper than ${nestingMax}; objects and lists may be inside of each other so deep`;
      return void done(Object.assign(new Error(message), { statusCode: 400 }), undefined);
    }
    try {
      done(null, body === "" ? undefined : JSON.parse(body as string));
    } catch (error) {
      done(Object.assign(new Error(`body: it is no JSON: ${messageOf(error)}`), { statusCode: 400 }), undefined);
    }
  });
}

interface RouteConfig {
  readonly scope: Scope;
}

/** Who may come in is decided before a body is read. */
function guard(app: FastifyInstance, options: HttpOptions): void {
  const rate = new RateLimit(options.rate);
  app.addHook("onRequest", async (request, reply) => {
    const { host, origin, "sec-fetch-site": fetchSite, authorization } = request.headers;
    if (!rate.take(request.ip, options.clock.now())) {
      reply.header("retry-after", "1");
      return refuseWith(reply, { status: 429, message: `rate: more than ${options.rate.perSecond} requests a second` });
    }
    const site = typeof fetchSite === "string" ? fetchSite : undefined;
    const { scope = "read" } = request.routeOptions.config as Partial<RouteConfig>;
    const refused =
      checkPlace({ host, origin, fetchSite: site }, options) ?? checkToken(authorization, scope, options.grants);
    if (refused) return refuseWith(reply, refused);
  });
  app.addHook("onSend", async (_request, reply) => {
    reply.headers({ "cache-control": "no-store", "x-content-type-options": "nosniff" });
  });
  app.addHook("onResponse", async (request, reply) => {
    const path = request.routeOptions.url ?? "unknown";
    options.onAnswer(path.replace(/^\/dcs_coordinator/, ""), reply.statusCode, reply.elapsedTime / 1_000);
  });
}

function addRoute(
  app: FastifyInstance,
  route: Route,
  at: { readonly prefix: string; readonly options: HttpOptions },
): void {
  const { coordinator, wallSeconds } = at.options;
  app.route({
    method: route.method,
    url: `${at.prefix}${route.path}`,
    config: { scope: route.scope } satisfies RouteConfig,
    handler: async (request, reply) => {
      const query = checked(route.query, given(request.query));
      if ("refused" in query) return refuseWith(reply, query.refused);
      const body = route.body === null ? { value: null } : checked(route.body, request.body ?? {});
      if ("refused" in body) return refuseWith(reply, body.refused);
      const gone = new AbortController();
      const leave = (): void => gone.abort();
      reply.raw.once("close", leave);
      const asked = { query: query.value as never, body: body.value as never };
      const result = await route.run(asked, { coordinator, wallSeconds, signal: gone.signal });
      reply.raw.off("close", leave);
      if ("refused" in result) return refuseWith(reply, result.refused);
      return reply.type(json).send(JSON.stringify(result.answer));
    },
  });
}

function addText(
  app: FastifyInstance,
  url: string,
  { type, text }: { readonly type: string; readonly text: () => string },
): void {
  const config: RouteConfig = { scope: "read" };
  app.get(url, { config }, async (_request, reply) => reply.type(type).send(text()));
}

/** A query without empty values: some clients write what they leave out as `role_filter=`. */
function given(query: unknown): object {
  return Object.fromEntries(Object.entries(query as object).filter(([, value]) => value !== ""));
}

function checked(schema: z.ZodType, value: unknown): { readonly value: unknown } | { readonly refused: Refusal } {
  const result = schema.safeParse(value);
  if (result.success) return { value: result.data };
  const [issue] = result.error.issues;
  const field = issue?.path.map(String).join(".").slice(0, 200) || "body";
  const why =
    issue?.code === "invalid_type" && issue.message.endsWith("received undefined") ? "is missing" : issue?.message;
  return { refused: { status: 422, message: `${field}: ${(why ?? "is wrong").slice(0, 300)}`, field } };
}

function refuseWith(reply: FastifyReply, refusal: Refusal): FastifyReply {
  return reply.code(refusal.status).type(json).send(bodyOf(refusal));
}

function bodyOf({ message, field }: Pick<Refusal, "message" | "field">): string {
  return JSON.stringify({ status: "error", message, detail: message, ...(field === undefined ? {} : { field }) });
}

function unknownPath(request: FastifyRequest, reply: FastifyReply): Refusal {
  const path = (request.url.split("?", 1)[0] ?? "").replace(/^\/dcs_coordinator(?=\/)/, "");
  const methods = [...routes, ...textRoutes].filter((route) => route.path === path).map(({ method }) => method);
  if (methods.length === 0)
    return { status: 404, message: `path: ${path.slice(0, 100)} is not served; see /openapi.json`, field: "path" };
  reply.header("allow", methods.join(", "));
  return {
    status: 405,
    message: `method: ${request.method} is not allowed here, use ${methods.join(" or ")}`,
    field: "method",
  };
}

const textRoutes = [
  { path: "/openapi.json", method: "GET" },
  { path: "/metrics", method: "GET" },
] as const;

const bodyFaults: Readonly<Record<string, string>> = {
  FST_ERR_CTP_BODY_TOO_LARGE: "body: it is larger than the limit",
  FST_ERR_CTP_INVALID_MEDIA_TYPE: "content-type: it must be application/json",
};

function refusalOf(error: FastifyError, { logger, bodyMax }: HttpOptions): Refusal {
  const status = error.statusCode ?? 503;
  const known = bodyFaults[error.code];
  if (known !== undefined) return { status, message: `${known}${status === 413 ? ` of ${bodyMax} bytes` : ""}` };
  if (status < 500) return { status, message: error.message.slice(0, 300) };
  logger.error({ error, reason: messageOf(error) }, "request failed");
  return { status: 503, message: "the coordinator can not answer now; its log says why" };
}

/** The page's server: a few routes over one job. */

import { setMaxListeners } from "node:events";
import type { AddressInfo } from "node:net";
import { type Clock, type Logger, MusterError, messageOf } from "@muster/base";
import type { JobClient } from "@muster/client";
import Fastify, { type FastifyInstance, type FastifyReply, type FastifyRequest } from "fastify";
import { errors } from "../errors.ts";
import type { Say } from "../view/facts.ts";
import { type Access, namesOf, refusalOf } from "./access.ts";
import { pagePolicy, readAssets } from "./assets.ts";
import { CommandDesk } from "./commands.ts";
import { JobWatch } from "./job-watch.ts";
import { streamTo } from "./stream.ts";

/** How the page is served. */
export interface DashboardOptions {
  readonly client: JobClient;
  readonly host: string;
  /** 0 for any free port. */
  readonly port: number;
  /** Who has it may read, and give commands. */
  readonly token: string;
  /** Certificate and key, as PEM, to speak HTTPS with. */
  readonly tls?: { readonly cert: string; readonly key: string };
  /** True to refuse commands. */
  readonly isReadOnly: boolean;
  /** Names besides its address by which browsers may call it. */
  readonly hostNames: readonly string[];
  readonly say: Say;
  readonly clock: Clock;
  readonly log: Logger;
}

/** A page that is served. */
export interface Dashboard {
  readonly port: number;
  close(): Promise<void>;
}

const bodyMaxBytes = 16 * 1024;
const readersMax = 64;
const connectionsMax = 256;
const patienceMs = 10_000;

/** Serves the page of a job until it is closed. @throws MUSTER_ERR_DASHBOARD_LISTEN */
export async function openDashboard(options: DashboardOptions): Promise<Dashboard> {
  const { client, host, say, clock, log } = options;
  const onFault = (reason: string): void => log.warn({ reason }, "the job can not be read now");
  const watch = await JobWatch.open(client, { say, clock, onFault });
  const ending = new AbortController();
  // Each open page and each command that waits hears of the end; both have bounds of their own.
  setMaxListeners(0, ending.signal);
  try {
    const access = { names: new Set<string>(), token: options.token };
    const app = appOf(options, watch, access, ending.signal);
    const port = await listen(app, options);
    for (const name of namesOf(host, port, options.hostNames)) access.names.add(name);
    return {
      port,
      async close() {
        ending.abort(new Error("the dashboard ends"));
        await app.close();
        await watch.close();
      },
    };
  } catch (error) {
    await watch.close();
    throw error;
  }
}

async function listen(app: FastifyInstance, { host, port }: DashboardOptions): Promise<number> {
  try {
    await app.listen({ host, port });
    return (app.server.address() as AddressInfo).port;
  } catch (error) {
    throw errors.DashboardListen({ host, port, reason: messageOf(error) }, error);
  }
}

function appOf(options: DashboardOptions, watch: JobWatch, access: Access, ending: AbortSignal): FastifyInstance {
  const { client, log, isReadOnly, tls } = options;
  const app = Fastify({
    ...{ bodyLimit: bodyMaxBytes, requestTimeout: patienceMs, forceCloseConnections: true },
    ...(tls ? { https: tls } : {}),
  }) as FastifyInstance;
  // A form of another page can be sent as text without asking; JSON can not.
  app.removeContentTypeParser("text/plain");
  app.server.maxConnections = connectionsMax;
  app.server.headersTimeout = patienceMs;
  const assets = readAssets();
  const desk = new CommandDesk(client, (kind, body) => log.info({ kind, body }, "a command is given on the page"));
  let readers = 0;

  app.addHook("onRequest", async (request, reply) => {
    reply.headers(guards);
    const { host, origin, authorization } = request.headers;
    const refusal = refusalOf(access, { host, origin, authorization }, request.url.startsWith("/api/"));
    if (refusal) await fail(reply, refusal.status, refusal.message);
  });
  app.setNotFoundHandler((_, reply) => fail(reply, 404, "there is nothing here; the page is at /"));
  app.setErrorHandler((error, _, reply) => fail(reply, statusOf(error), messageOf(error)));

  for (const [path, { type, body }] of assets)
    app.get(path, (_, reply) =>
      reply.type(type).header("content-security-policy", pagePolicy).header("cache-control", "no-cache").send(body),
    );
  app.get("/api/v1/status", (_, reply) => reply.send({ status: watch.status }));
  app.get("/api/v1/stream", (_: FastifyRequest, reply: FastifyReply) => {
    if (readers >= readersMax) return fail(reply, 503, `${readersMax} pages are open already; close one`);
    readers += 1;
    reply.raw.on("close", () => {
      readers -= 1;
    });
    reply.hijack();
    return streamTo(reply.raw, watch, { job: client.job, isReadOnly }, ending);
  });
  app.post<{ Params: { kind: string } }>("/api/v1/commands/:kind", async (request, reply) => {
    if (isReadOnly)
      return await fail(reply, 403, "this page is read only; start it without --read-only to give commands");
    const { status, body } = await desk.give(request.params.kind, request.body, ending);
    return await reply.code(status).send(body);
  });
  return app;
}

const guards = {
  ...{ "x-content-type-options": "nosniff", "referrer-policy": "no-referrer", "x-frame-options": "DENY" },
  ...{ "cross-origin-resource-policy": "same-origin", "cache-control": "no-store" },
};

function fail(reply: FastifyReply, status: number, message: string): FastifyReply {
  return reply.code(status).send({ error: message });
}

/** The status that the framework gives to its own refusals; a broker that does not answer may do so again; all others are faults of this server. */
function statusOf(error: unknown): number {
  if (error instanceof MusterError && error.retryable) return 503;
  const { statusCode } = error as { readonly statusCode?: unknown };
  return typeof statusCode === "number" && statusCode >= 400 && statusCode < 600 ? statusCode : 500;
}

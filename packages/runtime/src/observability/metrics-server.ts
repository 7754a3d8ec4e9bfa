/** The endpoint for Prometheus and for probes: two paths, read only, loopback unless told otherwise. */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { type AddressInfo, isIP } from "node:net";
import { messageOf } from "@muster/base";
import { errors } from "../errors.ts";
import type { MetricsRegistry } from "./metrics.ts";

const loopback = "127.0.0.1";

/** What a metrics server is started with. */
export interface MetricsServerOptions {
  /** Default `127.0.0.1`. */
  readonly host?: string;
  /** 0 for any free port. */
  readonly port: number;
  readonly metrics: Pick<MetricsRegistry, "render" | "contentType">;
  /** Whether the process can do its work; default always. False answers 503. */
  readonly healthy?: () => boolean;
}

/** A running metrics server. It does not keep the process alive. */
export interface MetricsServer {
  readonly port: number;
  close(): Promise<void>;
}

/**
 * Serves `GET /metrics` and `GET /healthz`; any other path is 404, any other method 405. On loopback a request must name an address or
 * `localhost` as its host, else it is 421: a page of the web whose name was made to point here is not to read along.
 *
 * @throws MUSTER_ERR_METRICS_PORT when the port is taken, MUSTER_ERR_METRICS_SERVER otherwise.
 */
export async function startMetricsServer(options: MetricsServerOptions): Promise<MetricsServer> {
  const { host = loopback, port } = options;
  const server = createServer(
    { requestTimeout: 5_000, headersTimeout: 5_000, keepAliveTimeout: 5_000 },
    (request, response) => {
      void answer(options, request).then((result) => send(response, result));
    },
  );
  server.maxConnections = 32;
  server.unref();
  await listen(server, host, port);
  return {
    port: (server.address() as AddressInfo).port,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

function listen(server: Server, host: string, port: number): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once("error", (error: NodeJS.ErrnoException) => {
      const taken = error.code === "EADDRINUSE";
      reject(
        taken
          ? errors.MetricsPort({ host, port }, error)
          : errors.MetricsServer({ host, port, reason: error.message }, error),
      );
    });
    server.listen(port, host, resolve);
  });
}

interface Answer {
  readonly status: number;
  readonly body: string;
  readonly headers?: Readonly<Record<string, string>>;
}

async function answer(options: MetricsServerOptions, request: IncomingMessage): Promise<Answer> {
  if (!isMeant(options.host ?? loopback, request)) return { status: 421, body: "not the name of this server\n" };
  const path = request.url?.split("?", 1)[0];
  if (path !== "/metrics" && path !== "/healthz") return { status: 404, body: "not found\n" };
  if (request.method !== "GET") return { status: 405, body: "method not allowed\n", headers: { allow: "GET" } };
  if (path === "/healthz") {
    const healthy = options.healthy?.() ?? true;
    return healthy ? { status: 200, body: "ok\n" } : { status: 503, body: "unhealthy\n" };
  }
  try {
    return {
      status: 200,
      body: await options.metrics.render(),
      headers: { "content-type": options.metrics.contentType },
    };
  } catch (error) {
    return { status: 500, body: `metrics cannot be rendered: ${messageOf(error)}\n` };
  }
}

function isMeant(bound: string, { headers }: IncomingMessage): boolean {
  if (bound !== "localhost" && bound !== "::1" && !bound.startsWith("127.")) return true;
  const name = (headers.host ?? "").replace(/:\d*$/, "").replace(/^\[(.*)\]$/, "$1");
  return name.toLowerCase() === "localhost" || isIP(name) !== 0;
}

function send(response: ServerResponse, { status, body, headers = {} }: Answer): void {
  response.writeHead(status, { "content-type": "text/plain; charset=utf-8", "cache-control": "no-store", ...headers });
  response.end(body);
}

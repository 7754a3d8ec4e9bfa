/** The router as a whole: routes, line, pool, health. */
import type { ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { type Clock, type Logger, type Metrics, messageOf } from "@muster/base";
import { isLoopback } from "@muster/http";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import type { Agent } from "undici";
import { type Headers, parseRequest } from "./core/parse-request.ts";
import { Pool } from "./core/pool.ts";
import { Refused } from "./core/reply.ts";
import { RetryBudget } from "./core/retry.ts";
import { isServing, type Worker } from "./core/worker.ts";
import { workerIdOf, workerUrlOf } from "./core/worker-url.ts";
import { errors } from "./errors.ts";
import type { RouterConfig } from "./router-config.ts";
import { addAdminRoutes } from "./routes/admin.ts";
import { Admission } from "./routes/admission.ts";
import { headersForEngine } from "./routes/answer-headers.ts";
import { AnswerMemory } from "./routes/answer-memory.ts";
import { pingMs } from "./routes/answer-stream.ts";
import type { Attempt } from "./routes/attempt.ts";
import { addDialectRoutes, type StreamTools } from "./routes/dialect-routes.ts";
import type { Asked } from "./routes/engine-routes.ts";
import { type ExchangeTools, exchange } from "./routes/exchange.ts";
import type { Grow } from "./routes/growing-answer.ts";
import { checkToken, hasTokens, type Tokens } from "./routes/guard.ts";
import { HeldAnswer } from "./routes/held-answer.ts";
import { HeldStream } from "./routes/held-stream.ts";
import { openHttpApp, scopedTo } from "./routes/http-app.ts";
import { openMeters } from "./routes/meters.ts";
import { addSessionRoutes } from "./routes/session-routes.ts";
import { SessionFiles } from "./sessions/session-files.ts";
import { ask } from "./upstream/fetch-json.ts";
import { HealthLoop } from "./upstream/health-loop.ts";
import { openAgent } from "./upstream/send.ts";

/** Metrics that can be shown. */
export interface ShownMetrics extends Metrics {
  render(): Promise<string>;
  readonly contentType: string;
}

/** What a router is started with. */
export interface RouterOptions {
  readonly config: RouterConfig;
  readonly tokens: Tokens;
  /** Shown to the engines; `null` when they ask for none. */
  readonly engineToken: string | null;
  /** Certificate and key, as PEM, to speak HTTPS with. */
  readonly tls?: { readonly cert: string; readonly key: string };
  /** Folder of the sessions of agents; without one there are none. */
  readonly sessions?: string;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly metrics: ShownMetrics;
}

/** A running router. */
export interface Router {
  readonly host: string;
  readonly port: number;
  /** Adds a worker; one that is there begins another life. @throws MUSTER_ERR_ROUTER_WORKER_URL @returns False when the pool is full. */
  add(url: string, labels?: Readonly<Record<string, string>>): boolean;
  /** Removes a worker by its address. @returns False when there is none. */
  remove(url: string): boolean;
  /** What `GET /workers` shows, for those who hold the router itself. */
  workers(): ReturnType<Pool["workers"]>;
  /** Requests that are not answered yet. */
  pending(): number;
  /** Takes no new requests, waits for those that run, and ends what is left after `graceMs`. @returns How many were cut off. */
  close(graceMs: number): Promise<number>;
}

/**
 * Starts a router.
 *
 * @throws MUSTER_ERR_ROUTER_OPEN, MUSTER_ERR_ROUTER_TOKEN, MUSTER_ERR_ROUTER_SESSIONS, MUSTER_ERR_ROUTER_LISTEN
 */
export async function startRouter(options: RouterOptions): Promise<Router> {
  const { config, tokens, engineToken, sessions } = options;
  if (!isLoopback(config.host) && (tokens.inference === null || tokens.admin === null))
    throw errors.RouterOpen({ host: config.host });
  for (const [field, token] of Object.entries({ ...tokens, engine: engineToken }))
    if (token !== null) checkToken(`the ${field} token`, token);
  const files = sessions === undefined ? null : await SessionFiles.open(sessions, config.sessions);
  const router = new RunningRouter(options, files);
  await router.listen();
  return router;
}

/** Who hears of a drawn answer, and whether it was asked for before. */
interface DrawOptions {
  readonly client?: FastifyReply["raw"];
  readonly grow?: Grow | undefined;
  readonly isRetry?: boolean;
}

/** Engines that are asked for their models, each for the time of a check. */
const modelsAskedMax = 3;

class RunningRouter implements Router {
  readonly #options: RouterOptions;
  readonly #pool: Pool;
  readonly #agent: Agent;
  readonly #health: HealthLoop;
  readonly #admission: Admission;
  readonly #tools: ExchangeTools;
  readonly #app: FastifyInstance;
  readonly #underWay = new Map<string, Set<Attempt>>();
  readonly #running = new Set<Promise<unknown>>();
  readonly #sessions: SessionFiles | null;
  #isDraining = false;
  #port = 0;

  constructor(options: RouterOptions, sessions: SessionFiles | null) {
    this.#options = options;
    this.#sessions = sessions;
    const { config, clock, logger, metrics, tokens, engineToken, tls = null } = options;
    this.#pool = new Pool(config.pool);
    this.#agent = openAgent();
    this.#admission = new Admission({
      ...{ pool: this.#pool, clock, ...config.queue },
      changed: (before, after) => this.#changed(before, after),
    });
    const meters = openMeters(metrics, this.#pool, () => this.#admission.waiting);
    this.#health = new HealthLoop({
      ...{ pool: this.#pool, agent: this.#agent, clock, logger },
      ...{ intervalMs: config.pool.health.intervalMs, timeoutMs: config.healthTimeoutMs },
      headers: engineToken === null ? {} : { authorization: `Bearer ${engineToken}` },
      checked: (before, after, ok) => {
        meters.check(ok);
        this.#changed(before, after);
        this.#admission.pump();
      },
    });
    this.#tools = {
      ...{ pool: this.#pool, admission: this.#admission, agent: this.#agent, clock, logger, meters },
      ...{ retry: config.retry, limits: config.attempt, underWay: this.#underWay },
      memory: new AnswerMemory(config.attempt.answersBytesMax),
      budget: new RetryBudget(config.retry, clock.now()),
      isTokenOurs: engineToken !== null || hasTokens(tokens),
      checkNow: (id) => this.#health.checkNow(id),
    };
    this.#app = openHttpApp({
      ...{ host: config.host, tls, tokens, limits: config.http, refused: (code) => meters.refused(code) },
      answer: (asked, response) => this.#answer(asked, response),
      failed: (error) => logger.error({ error }, "a route failed"),
    });
    this.#addRoutes();
  }

  get host(): string {
    return this.#options.config.host;
  }

  get port(): number {
    return this.#port;
  }

  async listen(): Promise<void> {
    const { host, port } = this.#options.config;
    try {
      await this.#app.listen({ host, port });
    } catch (error) {
      this.#health.close();
      await this.#agent.close();
      await this.#sessions?.close();
      throw errors.RouterListen({ host, port, reason: messageOf(error) }, error);
    }
    this.#port = (this.#app.server.address() as AddressInfo).port;
  }

  add(url: string, labels: Readonly<Record<string, string>> = {}): boolean {
    return this.#add(workerUrlOf(url), { labels });
  }

  remove(url: string): boolean {
    return this.#remove(workerIdOf(workerUrlOf(url)));
  }

  workers(): ReturnType<Pool["workers"]> {
    return this.#pool.workers();
  }

  pending(): number {
    return this.#running.size;
  }

  async close(graceMs: number): Promise<number> {
    const { clock } = this.#options;
    this.#isDraining = true;
    this.#admission.refuseAll(draining());
    let cancel = (): void => {};
    const late = new Promise<void>((resolve) => {
      cancel = clock.after(graceMs, resolve);
    });
    await Promise.race([late, Promise.allSettled([...this.#running])]);
    cancel();
    const cut = this.#running.size;
    this.#health.close();
    this.#app.server.closeAllConnections();
    await this.#app.close();
    await this.#agent.destroy();
    await this.#sessions?.close();
    return cut;
  }

  #add(url: string, about: { labels?: Readonly<Record<string, string>>; model?: string | null }): boolean {
    const { clock, logger } = this.#options;
    const id = workerIdOf(url);
    if (!this.#pool.add(id, url, clock.now(), about)) return false;
    logger.info({ worker: id, url }, "worker added");
    this.#health.watch(id);
    return true;
  }

  #remove(id: string): boolean {
    if (!this.#pool.remove(id)) return false;
    this.#options.logger.info({ worker: id }, "worker removed");
    this.#health.forget(id);
    this.#admission.pump();
    return true;
  }

  /** What follows when a worker changed: its requests go elsewhere when it is lost. */
  #changed(before: Worker, after: Worker): void {
    if (before.state === after.state && before.life === after.life) return;
    const { id, url, state, why, version } = after;
    const isLoss = isServing(before) && !isServing(after);
    const fields = { worker: id, url, from: before.state, to: state, version, why };
    this.#options.logger[isLoss ? "warn" : "info"](fields, "worker changed");
    if (state !== "quarantined") return;
    for (const attempt of [...(this.#underWay.get(id) ?? [])])
      attempt.fail("lost", `it was put into quarantine: ${why}`);
  }

  #addRoutes(): void {
    const app = this.#app;
    const everybody = scopedTo("public");
    const isReady = (): boolean => this.#pool.workers().some(isServing);
    const alive = async () => ({ status: "ok" });
    const ready = async () => {
      if (isReady() && !this.#isDraining) return { status: "ok" };
      throw new Refused({ status: 503, code: "no_worker", message: "no engine serves", retryAfter: 5 });
    };
    for (const path of ["/health", "/liveness"]) app.get(path, everybody, alive);
    for (const path of ["/health_generate", "/readiness"]) app.get(path, everybody, ready);
    app.get("/metrics", scopedTo("read"), async (_, reply) => {
      const { metrics } = this.#options;
      return reply.type(metrics.contentType).send(await metrics.render());
    });
    app.get("/v1/models", scopedTo("inference"), async (_, reply) =>
      reply.type("application/json").send(JSON.stringify(await this.#models())),
    );
    addDialectRoutes(app, {
      draw: (body, headers, client, grow) => this.#draw(body, headers, { client, grow }),
      ...{ running: this.#running, stream: this.#stream() },
    });
    if (this.#sessions)
      addSessionRoutes(app, {
        files: this.#sessions,
        tokens: this.#options.tokens,
        limits: this.#options.config.sessions,
        scheme: this.#options.tls ? "https" : "http",
        draw: (body, headers, grow) => this.#draw(body, headers, { grow }),
        models: () => this.#models(),
        redraw: (body, headers) =>
          this.#tools.budget.take(this.#options.clock.now()) ? this.#draw(body, headers, { isRetry: true }) : null,
        ...{ running: this.#running, stream: this.#stream() },
      });
    addAdminRoutes(app, {
      pool: this.#pool,
      add: (url, about) => this.#add(url, about),
      remove: (id) => this.#remove(id),
      setCurrent: (version) => {
        this.#pool.setCurrent(version);
        this.#options.logger.info({ version }, "the current weight version was set");
        for (const { id } of this.#pool.workers()) void this.#health.checkNow(id);
      },
    });
  }

  #answer({ route, bytes, headers }: Asked, response: ServerResponse): void {
    if (this.#isDraining) throw draining();
    const { maxStaleness } = this.#options.config;
    const parsed = parseRequest(route, bytes, headers, { maxStaleness });
    this.#tools.budget.deposit();
    const served = exchange(this.#tools, parsed, response, this.#headersForEngine(headers));
    this.#running.add(served);
    void served.then(() => this.#running.delete(served));
  }

  #headersForEngine(headers: Headers): Record<string, string> {
    const { tokens, engineToken } = this.#options;
    return headersForEngine(headers, { token: engineToken, hasOwnTokens: hasTokens(tokens) });
  }

  #stream(): StreamTools {
    const { config, logger } = this.#options;
    return {
      ...{ stallMs: config.attempt.clientStallMs, pingMs },
      failed: (error) => logger.error({ error }, "a stream failed in the router itself"),
      brokeOff: ({ message }) =>
        logger.warn({ detail: message }, "a turn's stream broke off; its answer is asked for anew"),
    };
  }

  /**
   * The whole answer of an engine to a chat request; a retry adds nothing to the budget of retries. Given up when this client leaves.
   * @throws Refused as the client would be told
   */
  async #draw(
    body: object,
    headers: FastifyRequest["headers"],
    { client, grow, isRetry = false }: DrawOptions,
  ): Promise<Readonly<Record<string, unknown>>> {
    if (this.#isDraining) throw draining();
    const { config } = this.#options;
    const asked = grow ? { ...body, stream_options: { include_usage: true } } : body;
    const bytes = Buffer.from(JSON.stringify(asked));
    const parsed = parseRequest("/v1/chat/completions", bytes, headers, { maxStaleness: config.maxStaleness });
    const { answerBytesMax } = config.attempt;
    const held = grow ? new HeldStream(answerBytesMax, this.#tools.memory, grow) : new HeldAnswer(answerBytesMax);
    client?.once("close", () => held.destroy());
    if (!isRetry) this.#tools.budget.deposit();
    await exchange(this.#tools, parsed, held, this.#headersForEngine(headers));
    return held.answer();
  }

  /** The models of the first engine that says; a few are asked. */
  async #models(): Promise<Readonly<Record<string, unknown>>> {
    const { clock, engineToken, config } = this.#options;
    const headers = engineToken === null ? {} : { authorization: `Bearer ${engineToken}` };
    for (const { url } of this.#pool.workers().filter(isServing).slice(0, modelsAskedMax)) {
      const question = { origin: url, path: "/v1/models", headers, timeoutMs: config.healthTimeoutMs };
      const asked = await ask(this.#agent, clock, question);
      if (asked.status === 200 && asked.table) return asked.table;
    }
    throw new Refused({ status: 503, code: "no_worker", message: "no engine says its models", retryAfter: 5 });
  }
}

function draining(): Refused {
  return new Refused({
    ...{ status: 503, code: "draining", retryAfter: 1 },
    message: "the router is about to end; try again at another one",
  });
}

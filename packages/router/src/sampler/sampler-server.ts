/** The endpoints of one sampler: the engine of a replica behind the routes of SGLang and of the OpenAI API, so that a router can stand in front. */
import { randomInt, randomUUID } from "node:crypto";
import type { ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { setTimeout as pause } from "node:timers/promises";
import { type Generated, type Logger, MusterError, messageOf } from "@muster/base";
import { isLoopback, shownHost } from "@muster/http";
import type { FastifyInstance } from "fastify";
import { isFenced, satisfies } from "../core/fence.ts";
import { parseRequest } from "../core/parse-request.ts";
import { bodyOfReply, Refused } from "../core/reply.ts";
import { doneData, eventOf } from "../core/sse.ts";
import { errors } from "../errors.ts";
import { routerDefaults } from "../router-config.ts";
import type { Asked } from "../routes/engine-routes.ts";
import { checkToken } from "../routes/guard.ts";
import { openHttpApp, scopedTo } from "../routes/http-app.ts";
import { drained } from "./drained.ts";
import { GrowingText } from "./growing-text.ts";
import { isCut, mayBeCut } from "./said.ts";
import { eventAnswer, type SaidSoFar, type Shown, usageEvent, wholeAnswer } from "./sampler-answers.ts";
import type { SamplerEngine, SamplerTokenizer } from "./sampler-engine.ts";
import { wantedOf } from "./sampler-request.ts";
import { Turns } from "./turns.ts";

/** Where a sampler serves. */
export interface SamplerServerOptions {
  readonly host: string;
  /** 0 for any free port. */
  readonly port: number;
  /** Asked of clients; needed where others than this host can reach it. */
  readonly token: string | null;
  readonly logger: Logger;
}

/** A server whose engine comes and goes with the lives of its replica. */
export interface SamplerServer {
  readonly url: string;
  /** Serves this engine from now on, in place of the one before. @returns Its incarnation. */
  open(engine: SamplerEngine, tokenizer: SamplerTokenizer): string;
  /** The engine is about to close: requests at it end, new ones are 503. */
  withdraw(engine: SamplerEngine): void;
  close(): Promise<void>;
}

interface Served {
  readonly engine: SamplerEngine;
  readonly tokenizer: SamplerTokenizer;
  readonly incarnation: string;
  readonly turns: Turns;
  readonly end: AbortController;
}

/** How often a stream looks at what was drawn. */
const lookMs = 20;
const healthMs = 4_000;

/** Starts the server; it answers 503 until an engine is there. @throws MUSTER_ERR_ROUTER_OPEN, _TOKEN, _LISTEN */
export async function startSamplerServer(options: SamplerServerOptions): Promise<SamplerServer> {
  const { host, port, token } = options;
  if (token !== null) checkToken("the token", token);
  else if (!isLoopback(host)) throw errors.RouterOpen({ host });
  const server = new Server(options);
  try {
    await server.app.listen({ host, port });
  } catch (error) {
    throw errors.RouterListen({ host, port, reason: messageOf(error) }, error);
  }
  return server;
}

class Server implements SamplerServer {
  readonly app: FastifyInstance;
  readonly #host: string;
  #served: Served | null = null;

  constructor({ host, token, logger }: SamplerServerOptions) {
    this.#host = host;
    this.app = openHttpApp({
      tls: null,
      ...{ host, tokens: { inference: token, admin: null }, limits: routerDefaults.http, refused: () => {} },
      answer: (asked, client) =>
        void this.#answer(asked, client).catch((error: unknown) => fail(client, error, logger)),
      failed: (error) => logger.error({ error }, "a request to the sampler failed"),
    });
    const inference = scopedTo("inference");
    this.app.get("/health", inference, async () => this.#health(false));
    this.app.get("/health_generate", inference, async () => this.#health(true));
    for (const path of ["/model_info", "/get_model_info"]) this.app.get(path, inference, async () => this.#about());
    this.app.get("/v1/models", inference, async () => {
      const { modelId, maxContext } = this.#mustServe().engine.info();
      const model = { id: modelId, object: "model", owned_by: "muster", max_model_len: maxContext };
      return { object: "list", data: [model] };
    });
  }

  get url(): string {
    const { port } = this.app.server.address() as AddressInfo;
    return `http://${shownHost(this.#host)}:${port}`;
  }

  open(engine: SamplerEngine, tokenizer: SamplerTokenizer): string {
    const end = new AbortController();
    const incarnation = randomUUID();
    this.#served = { engine, tokenizer, incarnation, end, turns: new Turns(engine, end.signal) };
    return incarnation;
  }

  withdraw(engine: SamplerEngine): void {
    if (this.#served?.engine !== engine) return;
    this.#served.end.abort(new Error("the sampler leaves"));
    this.#served = null;
  }

  async close(): Promise<void> {
    if (this.#served) this.withdraw(this.#served.engine);
    this.app.server.closeAllConnections();
    await this.app.close();
  }

  #mustServe(): Served {
    if (this.#served && this.#served.engine.weightVersion() !== null) return this.#served;
    throw new Refused({ status: 503, code: "no_worker", message: "the sampler has no weights yet", retryAfter: 1 });
  }

  async #health(deep: boolean): Promise<object> {
    const { engine } = this.#mustServe();
    const { ok, detail = "" } = await engine.health({ deep, signal: AbortSignal.timeout(healthMs) });
    if (ok) return { status: "ok" };
    throw new Refused({ status: 503, code: "no_worker", message: `the engine is not well: ${detail.slice(0, 300)}` });
  }

  #about(): object {
    const { engine, incarnation } = this.#mustServe();
    const { modelId, maxContext } = engine.info();
    return {
      ...{ model_path: modelId, is_generation: true, max_context: maxContext },
      ...{ weight_version: `${engine.weightVersion()}`, incarnation, resumes: true },
    };
  }

  async #answer({ route, bytes, headers }: Asked, client: ServerResponse): Promise<void> {
    const { engine, tokenizer, turns } = this.#mustServe();
    const parsed = parseRequest(route, bytes, headers, { maxStaleness: null });
    const version = `${engine.weightVersion()}`;
    if (isFenced(parsed.fence) && !satisfies(version, parsed.fence, Number(version)))
      throw new Refused({ status: 503, code: "fence_unmet", message: `this sampler has weight version ${version}` });
    const wanted = wantedOf(route, parsed.body, tokenizer, randomInt(2 ** 47));
    const id = randomUUID();
    const shown: Shown = {
      route,
      id,
      wanted,
      tokenizer,
      model: engine.info().modelId,
      createdS: Math.floor(Date.now() / 1000),
      growing: new GrowingText(tokenizer),
    };
    const gone = new AbortController();
    client.once("close", () => gone.abort());
    const { promptIds, n, sampling, seed } = wanted;
    const drawing = turns.ask({ requestId: id, promptIds, n, sampling, seed }, gone.signal);
    if (wanted.isStream) return await this.#stream(shown, { drawing, engine, client, gone: gone.signal });
    const responses = mayBeCut(wanted)
      ? await watched(shown, { drawing, engine }, async () => {})
      : mustBeWhole(shown, await drawing);
    if (client.destroyed) return;
    const body = JSON.stringify(wholeAnswer(shown, responses));
    client.writeHead(200, { "content-type": "application/json", "content-length": `${Buffer.byteLength(body)}` });
    client.end(body);
  }

  /** Events of what is drawn so far, until all is. */
  async #stream(
    shown: Shown,
    {
      client,
      gone,
      ...drawing
    }: Drawing & {
      readonly client: ServerResponse;
      /** The client has left. */
      readonly gone: AbortSignal;
    },
  ): Promise<void> {
    let said: SaidSoFar = { text: "", count: 0 };
    const say = async (response: Generated, isLast: boolean): Promise<void> => {
      if (!client.headersSent)
        client.writeHead(200, { "content-type": "text/event-stream", "cache-control": "no-store" });
      const { value, after } = eventAnswer(shown, response, said, isLast);
      said = after;
      if (!client.write(eventOf(JSON.stringify(value))))
        await drained(client, gone, routerDefaults.attempt.clientStallMs);
    };
    const [response] = await watched(shown, drawing, async (soFar) => {
      if (soFar.responseIds.length > said.count) await say(soFar, false);
    });
    if (response && !client.destroyed) await say(response, true);
    if (client.destroyed) return;
    const isCounted = shown.wanted.withUsage && shown.route !== "/generate";
    if (isCounted) client.write(eventOf(JSON.stringify(usageEvent(shown, said.count))));
    client.end(eventOf(doneData));
  }
}

interface Drawing {
  readonly drawing: Promise<readonly Generated[]>;
  readonly engine: SamplerEngine;
}

/** Lets `look` see what is drawn so far, until all is. A response that a stop text has ended is not drawn on. */
async function watched(
  shown: Shown,
  { drawing, engine }: Drawing,
  look: (soFar: Generated) => Promise<void>,
): Promise<readonly Generated[]> {
  let whole: readonly Generated[] | null = null;
  let isEnding = false;
  const drawn = drawing.then((responses) => {
    whole = mustBeWhole(shown, responses);
  });
  while (whole === null) {
    await Promise.race([drawn, pause(lookMs)]);
    const [soFar] = whole === null && !isEnding && shown.wanted.n === 1 ? (engine.drawn?.(shown.id) ?? []) : [];
    if (whole !== null || soFar?.finish !== "abort") continue;
    isEnding = isCut(shown, soFar, false);
    if (isEnding) await engine.abort([shown.id]);
    else await look(soFar);
  }
  return whole;
}

/** Responses that were aborted are no answer, unless a stop text ended them before: another sampler can draw them. */
function mustBeWhole(shown: Shown, responses: readonly Generated[]): readonly Generated[] {
  if (responses.length > 0 && responses.every((one) => one.finish !== "abort" || isCut(shown, one, true)))
    return responses;
  throw new Refused({ status: 503, code: "engine_lost", message: "the sampler gave the request up", retryAfter: 1 });
}

/** Errors of engines and tasks that are the request's own. */
const requestCodes = ["MUSTER_ERR_ENGINE_REQUEST_INVALID", "MUSTER_ERR_ENGINE_OPTION_UNSUPPORTED"];

function fail(client: ServerResponse, error: unknown, logger: Logger): void {
  if (client.destroyed) return;
  const isRequests = error instanceof MusterError && requestCodes.includes(error.code);
  const isBusy = error instanceof MusterError && error.retryable;
  const reply =
    error instanceof Refused
      ? error.reply
      : isRequests
        ? ({ status: 400, code: "invalid_request", message: error.message } as const)
        : ({
            status: isBusy ? 503 : 500,
            code: "engine_failed",
            message: `the engine failed: ${messageOf(error).slice(0, 300)}`,
          } as const);
  if (reply.status >= 500) logger.warn({ reason: reply.message }, "a request to the sampler failed");
  const body = bodyOfReply(reply);
  if (client.headersSent) return void client.write(eventOf(body), () => client.destroy());
  const retry = reply.status === 503 || reply.status === 429 ? { "retry-after": "1" } : {};
  client.writeHead(reply.status, {
    "content-type": "application/json",
    "content-length": `${Buffer.byteLength(body)}`,
    ...retry,
  });
  client.end(body);
}

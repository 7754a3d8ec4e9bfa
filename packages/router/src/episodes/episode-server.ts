/**
 * Base URLs for agents whose episodes are trained: the routes of sessions on loopback, in the process of a sampler. Sessions are in memory: an episode is begun
 * anew when its sampler dies, and its agent with it.
 */
import { randomBytes } from "node:crypto";
import type { AddressInfo } from "node:net";
import { type ChatMessage, type Logger, MusterError, messageOf, Places, type RewardAnswer } from "@muster/base";
import type { FastifyInstance } from "fastify";
import { Refused } from "../core/reply.ts";
import { RetryBudget } from "../core/retry.ts";
import { type Session, type SessionSample, samplesOf } from "../core/session.ts";
import { errors } from "../errors.ts";
import { routerDefaults } from "../router-config.ts";
import { pingMs } from "../routes/answer-stream.ts";
import type { Grow } from "../routes/growing-answer.ts";
import { openHttpApp } from "../routes/http-app.ts";
import { digestOfKey, freshKey } from "../routes/session-guard.ts";
import { addSessionRoutes } from "../routes/session-routes.ts";
import { chatMessageOf } from "../sampler/chat-request.ts";
import { SessionMemory } from "../sessions/session-memory.ts";
import type { SessionStore } from "../sessions/session-store.ts";
import { type Drawing, drawTurn } from "./turn-drawing.ts";

/** What an episode is made from. */
export interface EpisodeOptions extends Drawing {
  /** What its random numbers depend on, besides what the agent says: `[A-Za-z0-9_-]`, at most 40 characters. */
  readonly name: string;
  /** The engine failed over a turn, which is not the agent's fault. */
  readonly failed: (error: unknown) => void;
}

/** An episode under way. */
export interface Episode {
  /** `http://127.0.0.1:PORT/sessions/ID`; the base URL of an OpenAI client is this with `/v1`. */
  readonly url: string;
  /** Opens this episode and no other. */
  readonly key: string;
  /** Resolves when the agent ends its session. */
  readonly ended: Promise<void>;
  /** The last request that was refused, as its agent was told. */
  refusal(): string | null;
  /** Takes no more turns, and forgets the episode. @returns What happened in it. */
  finish(): Promise<EpisodeOutcome>;
}

/** What happened in an episode. */
export interface EpisodeOutcome {
  readonly turns: number;
  /** What the agent posted; `null` when it posted none. */
  readonly reward: RewardAnswer | null;
  /** `length` when the last turn was cut off. */
  readonly finish: "stop" | "length";
  readonly samples: readonly SessionSample[];
  /** The conversation that the last turn ends. */
  readonly messages: readonly ChatMessage[];
}

/** The episodes of one sampler. */
export interface EpisodeServer {
  begin(options: EpisodeOptions): Promise<Episode>;
  close(): Promise<void>;
}

interface Live {
  readonly options: EpisodeOptions;
  readonly end: () => void;
  readonly turns: Places;
  refusal: string | null;
}

/** Turns of one episode that the engine draws at the same time: the episodes beside it wait for no more than these. */
const turnsAtOnce = 16;

/** Errors of engines and tasks that are the request's own. */
const requestCodes = ["MUSTER_ERR_ENGINE_REQUEST_INVALID", "MUSTER_ERR_ENGINE_OPTION_UNSUPPORTED"];

/** Opens the routes on a free port of loopback. @throws MUSTER_ERR_ROUTER_LISTEN */
export async function startEpisodeServer({ logger }: { readonly logger: Logger }): Promise<EpisodeServer> {
  const server = new Server(logger);
  await server.listen();
  return server;
}

class Server implements EpisodeServer {
  readonly #app: FastifyInstance;
  readonly #live = new Map<string, Live>();
  readonly #budget = new RetryBudget(routerDefaults.retry, performance.now());
  readonly #sessions = new SessionMemory(routerDefaults.sessions.bytesMax, (id) => this.#live.get(id)?.end());

  constructor(logger: Logger) {
    // Nobody has these: only the keys of episodes open anything.
    const tokens = { inference: freshKey(), admin: freshKey() };
    this.#app = openHttpApp({
      ...{ host: "127.0.0.1", tls: null, tokens, limits: routerDefaults.http, refused: () => {} },
      failed: (error) => logger.error({ error }, "a route of an episode failed"),
    });
    addSessionRoutes(this.#app, {
      ...{ files: keptBy(this.#sessions), tokens, scheme: "http", running: new Set() },
      // How long an episode may take is the sampler's to say.
      limits: { ...routerDefaults.sessions, idleMs: Number.POSITIVE_INFINITY },
      seedNameOf: (id) => this.#live.get(id)?.options.name ?? id,
      models: async (id) => modelsOf(this.#live.get(id)?.options),
      redraw: (body, headers) =>
        this.#budget.take(performance.now()) ? this.#draw(`${headers["x-session-id"]}`, body) : null,
      draw: (body, headers, grow) => this.#draw(`${headers["x-session-id"]}`, body, grow),
      stream: {
        ...{ stallMs: routerDefaults.attempt.clientStallMs, pingMs },
        failed: (error) => logger.error({ error }, "a stream of an episode failed"),
        brokeOff: ({ message }) => logger.warn({ detail: message }, "a turn's stream broke off"),
      },
    });
  }

  async listen(): Promise<void> {
    const [host, port] = ["127.0.0.1", 0];
    try {
      await this.#app.listen({ host, port });
    } catch (error) {
      throw errors.RouterListen({ host, port, reason: messageOf(error) }, error);
    }
  }

  async begin(options: EpisodeOptions): Promise<Episode> {
    const { port } = this.#app.server.address() as AddressInfo;
    // Whoever is still there from an earlier try of the same sample has another id.
    const [id, key] = [`${options.name}-${randomBytes(8).toString("hex")}`, freshKey()];
    let end = (): void => {};
    const ended = new Promise<void>((resolve) => {
      end = resolve;
    });
    this.#live.set(id, { options, end, turns: new Places(turnsAtOnce), refusal: null });
    await this.#sessions.begin(id, { kind: "begin", atMs: Date.now(), metadata: {}, keyDigest: digestOfKey(key) });
    return {
      ...{ url: `http://127.0.0.1:${port}/sessions/${id}`, key, ended },
      refusal: () => this.#live.get(id)?.refusal ?? null,
      finish: async () => {
        const session = await this.#sessions.append(id, { kind: "end", atMs: Date.now(), reason: "asked" });
        await this.#sessions.remove(id);
        this.#live.delete(id);
        return outcomeOf(session);
      },
    };
  }

  async close(): Promise<void> {
    this.#app.server.closeAllConnections();
    await this.#app.close();
  }

  async #draw(
    id: string,
    body: Readonly<Record<string, unknown>>,
    grow?: Grow,
  ): Promise<Readonly<Record<string, unknown>>> {
    const live = this.#live.get(id);
    if (!live) throw new Refused({ status: 404, code: "not_found", message: "the episode is over" });
    try {
      return await live.turns.use(async () => await drawTurn(await this.#sessions.read(id), body, live.options, grow));
    } catch (error) {
      const refused = asRefused(error);
      live.refusal = refused?.message ?? messageOf(error);
      if (refused) throw refused;
      live.options.failed(error);
      const message = `the engine failed: ${messageOf(error).slice(0, 300)}`;
      throw new Refused({ status: 503, code: "engine_failed", message, retryAfter: 1 });
    }
  }
}

/** Sessions as agents reach them: who began one removes it. */
function keptBy(sessions: SessionMemory): SessionStore {
  return {
    read: (id) => sessions.read(id),
    begin: (id, record) => sessions.begin(id, record),
    append: (id, record) => sessions.append(id, record),
    remove: async (id) => {
      const message = `the sampler removes session ${id} when its sample is over; POST /sessions/${id}/end ends it`;
      throw new Refused({ status: 403, code: "forbidden", message });
    },
  };
}

/** The model that an episode samples, in the form of the OpenAI API. */
function modelsOf(options: EpisodeOptions | undefined): Readonly<Record<string, unknown>> {
  if (!options) throw new Refused({ status: 404, code: "not_found", message: "the episode is over" });
  const { model: id, maxContext } = options;
  return { object: "list", data: [{ id, object: "model", owned_by: "muster", max_model_len: maxContext }] };
}

function asRefused(error: unknown): Refused | null {
  if (error instanceof Refused) return error;
  const isRequests = error instanceof MusterError && requestCodes.includes(error.code);
  return isRequests ? new Refused({ status: 400, code: "invalid_request", message: error.message }) : null;
}

function outcomeOf(session: Session): EpisodeOutcome {
  const { turns, reward } = session;
  const last = turns.at(-1);
  const [choice] = (last?.answer.choices ?? []) as readonly { readonly finish_reason?: unknown }[];
  const messages: Readonly<Record<string, unknown>>[] = [];
  for (let turn = last; turn; turn = turn.parent === null ? undefined : turns[turn.parent])
    messages.unshift(...(turn.added as readonly Readonly<Record<string, unknown>>[]), turn.message);
  return {
    ...{ turns: turns.length, reward, samples: samplesOf(session), messages: messages.map(chatMessageOf) },
    finish: choice?.finish_reason === "length" ? "length" : "stop",
  };
}

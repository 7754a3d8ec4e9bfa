/** Turns of agents while they are drawn: each once, however many ask for it, and recorded before its end leaves. */
import type { FastifyRequest } from "fastify";
import { given, type Table } from "../core/dialect.ts";
import { Refused, sessionEnded } from "../core/reply.ts";
import { parentOf, type Session, type Turn, type TurnRequest } from "../core/session.ts";
import { answerOf } from "../core/turn-answer.ts";
import type { SessionBounds } from "../router-config.ts";
import { notFound, type SessionStore } from "../sessions/session-store.ts";
import type { StreamTools } from "./dialect-routes.ts";
import { type Grow, GrowingAnswer } from "./growing-answer.ts";
import type { Tokens } from "./guard.ts";

/** What the routes work on. */
export interface SessionTools {
  readonly files: SessionStore;
  readonly tokens: Tokens;
  readonly limits: SessionBounds;
  readonly scheme: "http" | "https";
  /** What the random numbers of a session depend on; its id unless somebody says otherwise. */
  readonly seedNameOf?: (id: string) => string;
  /** Asks an engine; as a stream where somebody hears of its pieces. @throws Refused */
  readonly draw: (body: Table, headers: FastifyRequest["headers"], grow?: Grow) => Promise<Table>;
  /** What `/v1/models` answers, for a session too. @throws Refused */
  readonly models: (id: string) => Promise<Table>;
  /** Asks for the whole answer anew, as one of the budget of retries, to which it adds nothing. @returns `null` when none is left. */
  readonly redraw: (body: Table, headers: FastifyRequest["headers"]) => Promise<Table> | null;
  readonly stream: StreamTools;
  /** Work that the end of the router waits for. */
  readonly running: Set<Promise<unknown>>;
}

/** What is done with a session, besides. */
export interface TurnTools extends SessionTools {
  /** How many turns of a session engines draw now: it is in use, and they count as its turns. */
  readonly drawing: Map<string, number>;
}

/** One turn. */
export interface TurnUnderWay {
  /** Resolves once the turn is recorded. */
  readonly answer: Promise<Table>;
  readonly growing: GrowingAnswer;
}

/** Turns that are being drawn. A request that comes again meanwhile follows the same one. */
export class TurnsUnderWay {
  readonly #tools: TurnTools;
  readonly #drawing = new Map<string, TurnUnderWay>();
  /** Those whose session was removed. */
  readonly #forgotten = new WeakSet<GrowingAnswer>();

  constructor(tools: TurnTools) {
    this.#tools = tools;
  }

  turnOf(id: string, request: TurnRequest, headers: FastifyRequest["headers"]): TurnUnderWay {
    const { running, stream } = this.#tools;
    const place = `${id}/${request.key}`;
    const underWay = this.#drawing.get(place);
    if (underWay !== undefined) return underWay;
    const growing = new GrowingAnswer();
    const answer = this.#turn(id, request, headers, growing)
      .then((turn) => turn.answer)
      .finally(() => {
        if (this.#drawing.get(place)?.growing === growing) this.#drawing.delete(place);
        running.delete(settled);
      });
    const settled = answer.catch((error: unknown) => {
      // Who asked for a stream may be gone, and would have heard of it no more than the log.
      if (request.isStream && !(error instanceof Refused)) stream.failed(error);
    });
    growing.follow(answer);
    const turn = { answer, growing };
    this.#drawing.set(place, turn);
    running.add(settled);
    return turn;
  }

  /** The session was removed: what is still drawn for it is recorded nowhere, also when another one begins under its name. */
  forget(id: string): void {
    for (const [place, { growing }] of this.#drawing) {
      if (!place.startsWith(`${id}/`)) continue;
      this.#forgotten.add(growing);
      this.#drawing.delete(place);
    }
  }

  /** The turn that is stored; else a new one, once the disk has it. */
  async #turn(
    id: string,
    request: TurnRequest,
    headers: FastifyRequest["headers"],
    growing: GrowingAnswer,
  ): Promise<Turn> {
    const { files, limits, drawing } = this.#tools;
    const { key, messages } = request;
    const { turns, byKey, ended } = await current(this.#tools, id);
    const stored = byKey.get(key);
    if (stored) return stored;
    if (ended !== null) throw sessionEnded(ended);
    const underWay = drawing.get(id) ?? 0;
    if (turns.length + underWay >= limits.turnsMax)
      throw new Refused({
        ...{ status: 409, code: "session_full" },
        message: `the session has ${turns.length + underWay} turns, as many as it may; end it and begin another one`,
      });
    drawing.set(id, underWay + 1);
    try {
      // Turns of one session go to one engine, whose prefix cache has the conversation.
      const { "x-api-key": _, ...passed } = headers;
      const drawn = await this.#drawn(request, { ...passed, "x-session-id": id }, growing);
      const turn = { key, ...parentOf(await files.read(id), messages), ...drawn };
      if (this.#forgotten.has(growing)) throw notFound(id);
      await files.append(id, { kind: "turn", atMs: Date.now(), turn });
      return turn;
    } finally {
      const left = (drawing.get(id) ?? 1) - 1;
      if (left > 0) drawing.set(id, left);
      else drawing.delete(id);
    }
  }

  /**
   * Asks for a stream where the agent does. Where that breaks off, or has no tokens, the whole is asked for: with the same seed, so that it begins with what
   * was said, as long as the weights are the same. It keeps the name under which it began. Like any other attempt it takes one from the budget of retries.
   */
  async #drawn(
    { body, isStream }: TurnRequest,
    headers: FastifyRequest["headers"],
    growing: GrowingAnswer,
  ): Promise<ReturnType<typeof answerOf>> {
    const { draw, redraw, stream } = this.#tools;
    if (!isStream) return answerOf(await draw(body, headers));
    try {
      return answerOf(await draw({ ...body, stream: true }, headers, growing.grow));
    } catch (error) {
      if (growing.head === null || !(error instanceof Refused)) throw error;
      const redrawn = redraw(body, headers);
      if (redrawn === null) throw error;
      stream.brokeOff(error);
      const drawn = answerOf(await redrawn);
      const { id, created } = growing.head;
      return { ...drawn, answer: { ...drawn.answer, ...given({ id, created }) } };
    }
  }
}

/** The session as it is now; one that nobody used for too long ends here. */
export async function current({ files, limits, drawing }: TurnTools, id: string): Promise<Session> {
  const session = await files.read(id);
  if (session.ended !== null || Date.now() - session.usedMs < limits.idleMs) return session;
  if (drawing.has(id)) return session;
  return await files.append(id, { kind: "end", atMs: Date.now(), reason: "idle" });
}

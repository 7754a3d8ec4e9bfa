/** One attempt: one engine, and its answer up to its end. Nothing leaves for the client before the engine has shown that it answers. */
import type { IncomingHttpHeaders, ServerResponse } from "node:http";
import { type Clock, messageOf } from "@muster/base";
import type { Agent } from "undici";
import { type AnswerFacts, factsOf } from "../core/answer-facts.ts";
import { isFenced, satisfies } from "../core/fence.ts";
import type { ParsedRequest } from "../core/parse-request.ts";
import type { Pool, Ticket } from "../core/pool.ts";
import type { FailureKind } from "../core/retry.ts";
import type { TokenStream } from "../core/token-stream.ts";
import { type AnswerListener, type Sent, send } from "../upstream/send.ts";
import { headersOfAnswer } from "./answer-headers.ts";
import { HeldAnswer } from "./held-answer.ts";
import { Relay } from "./relay.ts";

/** How an attempt ended. */
export type Outcome =
  | { readonly end: "answered"; readonly version: string | null; readonly status: number }
  | { readonly end: "failed"; readonly kind: FailureKind; readonly detail: string }
  | { readonly end: "client gone" };

/** Times and sizes of one attempt. */
export interface AttemptLimits {
  readonly timeoutMs: number;
  readonly stallMs: number;
  readonly clientStallMs: number;
  /** Longer answers that are no stream are passed on as they come, and then not tried again. */
  readonly answerBytesMax: number;
  /** Of all answers together that are held until they are whole; beyond it they are passed on as they come, or are 503 where they can not be. */
  readonly answersBytesMax: number;
}

/** What all attempts work with. */
export interface AttemptTools {
  readonly agent: Agent;
  readonly clock: Clock;
  readonly limits: AttemptLimits;
  readonly pool: Pool;
  /** The engine is shown a token of the router, or none: that it refuses it is no fault of the client. */
  readonly isTokenOurs: boolean;
}

/** The request that an attempt is for. */
export interface AttemptOwner {
  readonly request: ParsedRequest;
  readonly headers: Readonly<Record<string, string>>;
  readonly client: ServerResponse;
  /** Version that the engine says now; for answers that name none. */
  askVersion(ticket: Ticket): Promise<string | null>;
  /** The first token, or the whole of an answer that is no stream, is here. */
  firstByte(isEvents: boolean): void;
  /** Counts what is held of the answer. @returns False when the answers of all requests together are too much. */
  hold(bytes: number): boolean;
}

/** Which of its attempts it is. */
export interface AttemptOptions {
  readonly ticket: Ticket;
  readonly attempts: number;
  readonly bytes: Buffer;
  readonly tokens: TokenStream | null;
}

/** One attempt. */
export class Attempt implements AnswerListener {
  readonly #tools: AttemptTools;
  readonly #owner: AttemptOwner;
  readonly #options: AttemptOptions;
  #status = 0;
  #headers: IncomingHttpHeaders = {};
  #relay: Relay | null = null;
  #chunks: Buffer[] = [];
  #bytes = 0;
  #isPassedOn = false;
  #isWaiting = false;
  #sent: Sent | null = null;
  #settle: (outcome: Outcome) => void = () => {};

  constructor(tools: AttemptTools, owner: AttemptOwner, options: AttemptOptions) {
    this.#tools = tools;
    this.#owner = owner;
    this.#options = options;
  }

  run(): Promise<Outcome> {
    const { ticket, bytes } = this.#options;
    const { request, headers } = this.#owner;
    const { agent, clock, limits } = this.#tools;
    const { timeoutMs, stallMs } = limits;
    const method = "POST" as const;
    const out = { origin: ticket.url, path: request.route, method, headers, body: bytes, timeoutMs, stallMs };
    return new Promise((resolve) => {
      this.#settle = resolve;
      this.#sent = send(agent, clock, out, this);
    });
  }

  /** The client has left. */
  gone(): void {
    this.#sent?.drop();
    this.#settle({ end: "client gone" });
  }

  /** Ends it early. */
  fail(kind: FailureKind, detail: string): void {
    this.#sent?.fail(kind, detail);
  }

  failed(kind: FailureKind, detail: string): void {
    this.#settle({ end: "failed", kind, detail });
  }

  end(): void {
    try {
      this.#ended();
    } catch (error) {
      this.#unanswerable(error);
    }
  }

  #unanswerable(error: unknown): void {
    this.failed("reset", `its answer can not be passed on: ${messageOf(error)}`);
  }

  head(status: number, headers: IncomingHttpHeaders): void {
    this.#status = status;
    this.#headers = headers;
    const { tokens, ticket } = this.#options;
    const { request, client } = this.#owner;
    const { clock, pool, limits } = this.#tools;
    const isEvents = `${headers["content-type"]}`.startsWith("text/event-stream");
    if (status !== 200 || !isEvents) return;
    this.#relay = new Relay({
      ...{ client, clock, tokens, fence: request.fence, probed: ticket.version },
      newest: () => pool.newest,
      begin: (facts) => this.#begin(facts),
      pause: () => this.#sent?.pause(),
      resume: () => this.#sent?.resume(),
      clientStallMs: limits.clientStallMs,
    });
  }

  /** Status and headers of an answer that comes in pieces. Of a stream that goes on at another engine they have left before. */
  #begin(facts: AnswerFacts): void {
    const { client } = this.#owner;
    this.#owner.firstByte(this.#relay !== null);
    if (!client.headersSent) client.writeHead(this.#status, this.#answerHeaders(facts));
  }

  #answerHeaders({ version, spans }: AnswerFacts): Record<string, string | string[]> {
    const { ticket, attempts } = this.#options;
    const { workerId, version: probed } = ticket;
    return headersOfAnswer(this.#headers, { workerId, attempts, named: version, spans, probed });
  }

  piece(chunk: Buffer): void {
    if (this.#relay) {
      const fault = this.#relay.take(chunk);
      if (fault) this.#sent?.fail(fault.kind, fault.detail);
      return;
    }
    if (this.#isPassedOn) return void this.#pass(chunk);
    this.#chunks.push(chunk);
    this.#bytes += chunk.length;
    const { limits } = this.#tools;
    const { request, client } = this.#owner;
    const isRoom = this.#owner.hold(chunk.length);
    if (isRoom && this.#bytes <= limits.answerBytesMax) return;
    const mustBeWhole = isFenced(request.fence) || this.#status !== 200;
    if (!isRoom && (mustBeWhole || client instanceof HeldAnswer))
      return void this.#sent?.fail(
        "busy",
        `answers of all requests together are longer than ${limits.answersBytesMax} bytes`,
      );
    if (mustBeWhole) return void this.#sent?.fail("status", `its answer is longer than ${limits.answerBytesMax} bytes`);
    this.#isPassedOn = true;
    this.#begin({ error: null, version: null, spans: [] });
    for (const part of this.#chunks) this.#pass(part);
    this.#chunks = [];
  }

  #pass(chunk: Buffer): void {
    const { client } = this.#owner;
    const { clock, limits } = this.#tools;
    if (client.write(chunk) || this.#isWaiting) return;
    this.#isWaiting = true;
    this.#sent?.pause();
    const cancel = clock.after(limits.clientStallMs, () => client.destroy());
    client.once("close", cancel);
    client.once("drain", () => {
      this.#isWaiting = false;
      cancel();
      client.off("close", cancel);
      this.#sent?.resume();
    });
  }

  #ended(): void {
    if (this.#relay || this.#isPassedOn) return void this.#endedInPieces();
    const body = this.#chunks.length === 1 ? (this.#chunks[0] as Buffer) : Buffer.concat(this.#chunks);
    const failure = failureOfStatus(this.#status, body, this.#tools.isTokenOurs);
    if (failure) return void this.#settle(failure);
    const value = parsed(body);
    if (this.#status !== 200) return void this.#answer(body, noFacts);
    if (typeof value !== "object" || value === null)
      return void this.failed("error_body", "it answered 200 with something that is not JSON");
    const facts = factsOf(value);
    if (facts.error !== null) return void this.failed("error_body", facts.error);
    if (!isFenced(this.#owner.request.fence)) return void this.#answer(body, facts);
    const answered = this.#staleness(facts).then((stale) =>
      stale === null ? this.#answer(body, facts) : this.failed("stale", stale),
    );
    answered.catch((error: unknown) => this.#unanswerable(error));
  }

  #endedInPieces(): void {
    const { client } = this.#owner;
    const fault = this.#relay?.finish() ?? null;
    if (fault) return void this.failed(fault.kind, fault.detail);
    const isEmpty = this.#relay !== null && !this.#relay.hasData;
    if (isEmpty) return void this.failed("error_body", "its stream ended without an event");
    const version = this.#relay?.version ?? null;
    const ends = (): void => {
      this.#settle({ end: "answered", version, status: this.#status });
      client.end();
    };
    // Nobody but the router has seen this one: weights that it does not name are asked for, as those of a whole answer are.
    const isAsked = version === null && client instanceof HeldAnswer && isFenced(this.#owner.request.fence);
    if (!isAsked) return void ends();
    const asked = this.#staleness(noFacts).then((stale) => (stale === null ? ends() : this.failed("stale", stale)));
    asked.catch((error: unknown) => this.#unanswerable(error));
  }

  /** Passes on an answer that is whole. */
  #answer(body: Buffer, facts: AnswerFacts): void {
    const { client } = this.#owner;
    if (!client.destroyed) {
      const headers = this.#answerHeaders(facts);
      headers["content-length"] = `${body.length}`;
      client.writeHead(this.#status, headers);
      this.#owner.firstByte(false);
      client.end(body);
    }
    this.#settle({ end: "answered", version: facts.version, status: this.#status });
  }

  /** Why the weights that answered are not what the request accepts; `null` when they are. */
  async #staleness({ version, spans }: AnswerFacts): Promise<string | null> {
    const { fence } = this.#owner.request;
    const named = [...spans.map((span) => span.version), ...(version === null ? [] : [version])];
    // An engine whose answers say nothing had the right weights before; so it must have them after.
    const versions = named.length > 0 ? named : [await this.#owner.askVersion(this.#options.ticket)];
    const wrong = versions.find((one) => !satisfies(one, fence, this.#tools.pool.newest));
    return wrong === undefined ? null : `it drew with weight version ${wrong ?? "unknown"}`;
  }
}

const noFacts: AnswerFacts = { error: null, version: null, spans: [] };

function parsed(body: Buffer): unknown {
  try {
    return JSON.parse(body.toString("utf8"));
  } catch (error) {
    if (error instanceof SyntaxError) return null;
    throw error;
  }
}

/** Statuses that another engine may mend. Those of the client's own making are the answer. */
function failureOfStatus(status: number, body: Buffer, isTokenOurs: boolean): Outcome | null {
  if (status === 429 || status === 503) return { end: "failed", kind: "busy", detail: `it answered ${status}` };
  const isOurs = isTokenOurs && (status === 401 || status === 403);
  if (status < 500 && !isOurs) return null;
  const text = factsOf(parsed(body)).error ?? body.toString("utf8", 0, 200).replace(/\s+/g, " ").trim();
  return { end: "failed", kind: "status", detail: `it answered ${status}${text === "" ? "" : `: ${text}`}` };
}

/** One attempt: one engine, and its answer up to its end. Nothing leaves for the client before the engine has shown that it answers. */
import type { IncomingHttpHeaders, ServerResponse } from "node:http";
import { type Clock, messageOf } from "@muster/base";
import type { Agent } from "undici";
import { type AnswerFacts, factsOf } from "../core/answer-facts.ts";
import { isFenced, satisfies } from "../core/fence.ts";
import type { ParsedRequest } from "../core/parse-request.ts";
import type { Ticket } from "../core/pool.ts";
import type { FailureKind } from "../core/retry.ts";
import type { TokenStream } from "../core/token-stream.ts";
import { type Sent, send } from "../upstream/send.ts";
import { headersOfAnswer } from "./answer-headers.ts";
import type { AnswerMemory } from "./answer-memory.ts";
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

/** What an attempt works with. */
export interface AttemptOptions {
  readonly request: ParsedRequest;
  readonly ticket: Ticket;
  readonly attempts: number;
  readonly bytes: Buffer;
  readonly headers: Readonly<Record<string, string>>;
  readonly client: ServerResponse;
  readonly tokens: TokenStream | null;
  readonly agent: Agent;
  readonly clock: Clock;
  readonly limits: AttemptLimits;
  readonly memory: AnswerMemory;
  readonly newest: () => number | null;
  /** The engine is shown a token of the router, or none: that it refuses it is no fault of the client. */
  readonly isTokenOurs: boolean;
  /** Version that the engine says now; for answers that name none. */
  readonly askVersion: (ticket: Ticket) => Promise<string | null>;
  /** The first token, or the whole of an answer that is no stream, is here. */
  readonly firstByte: (isEvents: boolean) => void;
  /** Gives whoever may end the attempt early the way to do so; `null` when it is over. */
  readonly running: (sent: Sent | null) => void;
}

/** Runs one attempt. */
export async function attempt(options: AttemptOptions): Promise<Outcome> {
  const outcome = await new Attempt(options).run();
  options.running(null);
  return outcome;
}

type Settle = (outcome: Outcome) => void;

class Attempt {
  readonly #options: AttemptOptions;
  #status = 0;
  #headers: IncomingHttpHeaders = {};
  #relay: Relay | null = null;
  #chunks: Buffer[] = [];
  #bytes = 0;
  #isPassedOn = false;
  #isWaiting = false;
  #sent: Sent | null = null;

  constructor(options: AttemptOptions) {
    this.#options = options;
  }

  run(): Promise<Outcome> {
    const { request, ticket, bytes, headers, client, agent, clock, limits, running } = this.#options;
    return new Promise((resolve) => {
      const gone = (): void => {
        this.#sent?.drop();
        resolve({ end: "client gone" });
      };
      const settle: Settle = (outcome) => {
        client.off("close", gone);
        if (outcome.end === "failed") this.#options.memory.release(client);
        resolve(outcome);
      };
      if (client.destroyed) return gone();
      client.once("close", gone);
      const { timeoutMs, stallMs } = limits;
      const method = "POST" as const;
      const out = { origin: ticket.url, path: request.route, method, headers, body: bytes, timeoutMs, stallMs };
      this.#sent = send(agent, clock, out, {
        head: (status, answerHeaders) => this.#head(status, answerHeaders),
        piece: (chunk) => this.#piece(chunk),
        end: () =>
          void this.#end(settle).catch((error: unknown) => {
            settle({ end: "failed", kind: "reset", detail: `its answer can not be passed on: ${messageOf(error)}` });
          }),
        failed: (kind, detail) => settle({ end: "failed", kind, detail }),
      });
      running(this.#sent);
    });
  }

  #head(status: number, headers: IncomingHttpHeaders): void {
    this.#status = status;
    this.#headers = headers;
    const { request, client, clock, tokens, ticket, newest, limits } = this.#options;
    const isEvents = `${headers["content-type"]}`.startsWith("text/event-stream");
    if (status !== 200 || !isEvents) return;
    this.#relay = new Relay({
      ...{ client, clock, tokens, newest, fence: request.fence, probed: ticket.version },
      begin: (facts) => this.#begin(facts),
      pause: () => this.#sent?.pause(),
      resume: () => this.#sent?.resume(),
      clientStallMs: limits.clientStallMs,
    });
  }

  /** Status and headers of an answer that comes in pieces. Of a stream that goes on at another engine they have left before. */
  #begin(facts: AnswerFacts): void {
    this.#options.firstByte(this.#relay !== null);
    const { client } = this.#options;
    if (!client.headersSent) client.writeHead(this.#status, this.#answerHeaders(facts));
  }

  #answerHeaders({ version, spans }: AnswerFacts): Record<string, string | string[]> {
    const { ticket, attempts } = this.#options;
    const { workerId, version: probed } = ticket;
    return headersOfAnswer(this.#headers, { workerId, attempts, named: version, spans, probed });
  }

  #piece(chunk: Buffer): void {
    if (this.#relay) {
      const fault = this.#relay.take(chunk);
      if (fault) this.#sent?.fail(fault.kind, fault.detail);
      return;
    }
    if (this.#isPassedOn) return void this.#pass(chunk);
    this.#chunks.push(chunk);
    this.#bytes += chunk.length;
    const { limits, request, memory, client } = this.#options;
    const isRoom = memory.hold(client, chunk.length);
    if (isRoom && this.#bytes <= limits.answerBytesMax) return;
    const mustBeWhole = isFenced(request.fence) || this.#status !== 200;
    if (!isRoom && (mustBeWhole || client instanceof HeldAnswer))
      return void this.#sent?.fail("busy", `answers of all requests together are longer than ${memory.bytesMax} bytes`);
    if (mustBeWhole) return void this.#sent?.fail("status", `its answer is longer than ${limits.answerBytesMax} bytes`);
    this.#isPassedOn = true;
    this.#begin({ error: null, version: null, spans: [] });
    for (const part of this.#chunks) this.#pass(part);
    this.#chunks = [];
  }

  #pass(chunk: Buffer): void {
    const { client, clock, limits } = this.#options;
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

  async #end(settle: Settle): Promise<void> {
    const { client } = this.#options;
    if (this.#relay || this.#isPassedOn) {
      const fault = this.#relay?.finish() ?? null;
      if (fault) return settle({ end: "failed", ...fault });
      const isEmpty = this.#relay !== null && !this.#relay.hasData;
      if (isEmpty) return settle({ end: "failed", kind: "error_body", detail: "its stream ended without an event" });
      settle({ end: "answered", version: this.#relay?.version ?? null, status: this.#status });
      client.end();
      return;
    }
    const body = this.#chunks.length === 1 ? (this.#chunks[0] as Buffer) : Buffer.concat(this.#chunks);
    const failure = failureOfStatus(this.#status, body, this.#options.isTokenOurs);
    if (failure) return settle(failure);
    const value = parsed(body);
    if (this.#status === 200 && (typeof value !== "object" || value === null))
      return settle({ end: "failed", kind: "error_body", detail: "it answered 200 with something that is not JSON" });
    const facts = this.#status === 200 ? factsOf(value) : noFacts;
    if (facts.error !== null) return settle({ end: "failed", kind: "error_body", detail: facts.error });
    const stale = this.#status === 200 ? await this.#staleness(facts) : null;
    if (stale !== null) return settle({ end: "failed", kind: "stale", detail: stale });
    if (!client.destroyed) {
      client.writeHead(this.#status, { ...this.#answerHeaders(facts), "content-length": `${body.length}` });
      this.#options.firstByte(false);
      client.end(body);
    }
    settle({ end: "answered", version: facts.version, status: this.#status });
  }

  /** Why the weights that answered are not what the request accepts; `null` when they are. */
  async #staleness({ version, spans }: AnswerFacts): Promise<string | null> {
    const { request, ticket, newest, askVersion } = this.#options;
    if (!isFenced(request.fence)) return null;
    const named = [...spans.map((span) => span.version), ...(version === null ? [] : [version])];
    // An engine whose answers say nothing had the right weights before; so it must have them after.
    const versions = named.length > 0 ? named : [await askVersion(ticket)];
    const wrong = versions.find((one) => !satisfies(one, request.fence, newest()));
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

/** One request from its arrival to its end: attempts at one engine after another, and the answer of the one that gave it. */
import type { ServerResponse } from "node:http";
import type { Clock, Logger } from "@muster/base";
import type { Agent } from "undici";
import { isFenced } from "../core/fence.ts";
import type { ParsedRequest } from "../core/parse-request.ts";
import type { Pool, Ticket } from "../core/pool.ts";
import { bodyOfReply, Refused, type Reply } from "../core/reply.ts";
import { type FailureKind, nextMove, type RetryBudget, type RetryPolicy } from "../core/retry.ts";
import { doneData, eventOf } from "../core/sse.ts";
import { TokenStream } from "../core/token-stream.ts";
import type { RequestVerdict } from "../core/worker.ts";
import type { Sent } from "../upstream/send.ts";
import type { Admission } from "./admission.ts";
import type { AnswerMemory } from "./answer-memory.ts";
import { type AttemptLimits, attempt, type Outcome } from "./attempt.ts";
import type { Meters } from "./meters.ts";

/** What all exchanges work with. */
export interface ExchangeTools {
  readonly pool: Pool;
  readonly admission: Admission;
  readonly budget: RetryBudget;
  readonly retry: RetryPolicy;
  readonly limits: AttemptLimits;
  readonly memory: AnswerMemory;
  readonly agent: Agent;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly meters: Meters;
  /** Engines see a token of the router or none, and never that of the client. */
  readonly isTokenOurs: boolean;
  /** Checks a worker now; resolves when it was. */
  readonly checkNow: (workerId: string) => Promise<void>;
  /** Requests by their worker, so that those of a lost one end at once. */
  readonly underWay: Map<string, Set<Sent>>;
}

type Failed = Extract<Outcome, { end: "failed" }>;

/** Answers one request. Never throws. */
export async function exchange(
  tools: ExchangeTools,
  request: ParsedRequest,
  client: ServerResponse,
  headers: Readonly<Record<string, string>>,
): Promise<void> {
  await new Exchange(tools, request, client, headers).run();
  await taken(client, tools.limits.clientStallMs);
}

/** Waits until the client has taken its answer. One that takes nothing of it for so long is cut off. */
function taken(client: ServerResponse, stallMs: number): Promise<void> {
  if (client.closed || client.destroyed) return Promise.resolve();
  return new Promise((resolve) => {
    // Of its socket, which knows how much of a large piece has left.
    client.setTimeout(stallMs, () => client.destroy());
    client.once("close", resolve);
  });
}

class Exchange {
  readonly #tools: ExchangeTools;
  readonly #request: ParsedRequest;
  readonly #client: ServerResponse;
  readonly #headers: Readonly<Record<string, string>>;
  readonly #tried = new Set<string>();
  /** Failures for which the request itself may be the cause, until another engine answers it. */
  readonly #unproven: { readonly ticket: Ticket; readonly verdict: RequestVerdict }[] = [];
  #isGone = false;
  /** Only where somebody waits: it costs more than all else that a request without a wait has. */
  #leaving: AbortController | null = null;
  readonly #startedMs: number;
  #hasFirstByte = false;
  #isEvents = false;
  #tokens: TokenStream | null = null;

  constructor(
    tools: ExchangeTools,
    request: ParsedRequest,
    client: ServerResponse,
    headers: Readonly<Record<string, string>>,
  ) {
    this.#tools = tools;
    this.#request = request;
    this.#client = client;
    this.#headers = headers;
    this.#startedMs = tools.clock.now();
    if (request.prompt) this.#tokens = new TokenStream(request.body, request.prompt);
  }

  async run(): Promise<void> {
    const { meters, clock } = this.#tools;
    const leave = (): void => {
      this.#isGone = true;
      this.#leaving?.abort(clientGone());
    };
    this.#client.once("close", leave);
    try {
      await this.#attempts();
    } catch (error) {
      if (this.#isGone) return;
      this.#refuse(error instanceof Refused ? error.reply : this.#unexpected(error));
    } finally {
      this.#client.off("close", leave);
      // 499 is what nginx counts for a client that left before its answer.
      const status = this.#isGone && !this.#client.headersSent ? 499 : this.#client.statusCode;
      meters.request(this.#request.route, status, clock.now() - this.#startedMs);
    }
  }

  async #attempts(): Promise<void> {
    const { budget, admission, meters, retry, clock } = this.#tools;
    budget.deposit();
    let { bytes } = this.#request;
    let resumes = false;
    for (let attempts = 1; ; attempts++) {
      const { fence, stickyKey } = this.#request;
      if (this.#isGone) return;
      const need = { fence, stickyKey, tried: this.#tried, resumes };
      const ticket = admission.takeNow(need) ?? (await admission.acquire(need, this.#waitSignal()));
      meters.sticky(ticket.sticky);
      const outcome = await this.#attempt(ticket, attempts, bytes);
      if (outcome.end !== "failed") return;
      meters.failure(outcome.kind);
      this.#tried.add(ticket.workerId);
      const bytesLeft = this.#client.headersSent;
      if (bytesLeft && this.#tokens?.isFinished) return void this.#client.end(eventOf(doneData));
      const canContinue = ticket.resumes && (this.#tokens?.canContinue ?? false);
      const takeFromBudget = (): boolean => budget.take(clock.now());
      const { kind } = outcome;
      const move = nextMove({ kind, attempts, attemptsMax: retry.attemptsMax, bytesLeft, canContinue, takeFromBudget });
      if (move !== "retry" && move !== "continue") return this.#giveUp(move, outcome, ticket, attempts);
      meters.retry(move);
      resumes = move === "continue";
      if (resumes) bytes = Buffer.from(JSON.stringify(this.#tokens?.restRequest()));
      else if (this.#request.prompt) this.#tokens = new TokenStream(this.#request.body, this.#request.prompt);
      this.#note(outcome, ticket, move);
    }
  }

  #waitSignal(): AbortSignal {
    this.#leaving ??= new AbortController();
    return this.#leaving.signal;
  }

  async #attempt(ticket: Ticket, attempts: number, bytes: Buffer): Promise<Outcome> {
    const { agent, clock, limits, memory, pool, admission, underWay } = this.#tools;
    const here = underWay.get(ticket.workerId) ?? new Set<Sent>();
    underWay.set(ticket.workerId, here);
    let mine: Sent | null = null;
    let outcome: Outcome = { end: "client gone" };
    try {
      outcome = await attempt({
        request: this.#request,
        client: this.#client,
        headers: this.#headers,
        ticket,
        attempts,
        bytes,
        agent,
        clock,
        limits,
        memory,
        newest: () => pool.newest,
        isTokenOurs: this.#tools.isTokenOurs,
        // Without an engine that resumes nothing is read that need not be.
        tokens: ticket.resumes ? this.#tokens : null,
        askVersion: (of) => this.#askVersion(of),
        firstByte: (isEvents) => this.#first(isEvents),
        running: (sent) => {
          if (mine) here.delete(mine);
          if (sent) here.add(sent);
          mine = sent;
        },
      });
      return outcome;
    } finally {
      if (here.size === 0 && underWay.get(ticket.workerId) === here) underWay.delete(ticket.workerId);
      admission.release(ticket, this.#verdictOf(outcome, ticket));
      if (outcome.end === "answered" && outcome.status === 200)
        for (const one of this.#unproven) admission.judge(one.ticket, one.verdict);
      if (outcome.end === "failed" && outcome.kind !== "busy") void this.#tools.checkNow(ticket.workerId);
    }
  }

  /** A request that fails everywhere may be at fault itself: then it must not put all engines out, one after another. */
  #verdictOf(outcome: Outcome, ticket: Ticket): RequestVerdict {
    const verdict = verdictOf(outcome);
    if (verdict.kind !== "failed" || verdict.refused || this.#client.headersSent) return verdict;
    this.#unproven.push({ ticket, verdict });
    return { kind: "neutral" };
  }

  #first(isEvents: boolean): void {
    this.#isEvents = isEvents;
    if (this.#hasFirstByte) return;
    this.#hasFirstByte = true;
    const { meters, clock } = this.#tools;
    meters.firstToken(this.#request.route, clock.now() - this.#startedMs);
  }

  async #askVersion({ workerId, life }: Ticket): Promise<string | null> {
    await this.#tools.checkNow(workerId);
    const worker = this.#tools.pool.worker(workerId);
    // After a check that failed nobody knows what it has.
    return worker && worker.life === life && worker.probeFailures === 0 ? worker.version : null;
  }

  #giveUp(move: string, { kind, detail }: Failed, ticket: Ticket, attempts: number): void {
    this.#note({ end: "failed", kind, detail }, ticket, move);
    const many = attempts === 1 ? "1 attempt" : `${attempts} attempts`;
    const message = `the request failed after ${many}; the last engine, ${ticket.workerId}: ${detail}`;
    if (move === "give up: budget")
      return void this.#refuse({
        ...{ status: 503, code: "retry_budget", retryAfter: 5 },
        message: `${message}; it is not tried again because too many requests fail`,
      });
    this.#refuse({ ...statusOfFailure(kind, isFenced(this.#request.fence)), message });
  }

  /** Says what is wrong: as an answer, or as the last event of a stream that has begun, whose connection then breaks off. */
  #refuse(reply: Reply): void {
    const { meters } = this.#tools;
    meters.refused(reply.code);
    if (this.#client.destroyed) return;
    if (!this.#client.headersSent) return void sendReply(this.#client, reply);
    if (!this.#isEvents) return void this.#client.destroy();
    this.#client.write(eventOf(bodyOfReply(reply)), () => this.#client.destroy());
  }

  #unexpected(error: unknown): Reply {
    this.#tools.logger.error({ error }, "a request failed in the router itself");
    return { status: 500, code: "internal", message: "the router itself failed; its log says why" };
  }

  #note({ kind, detail }: Failed, { workerId, url }: Ticket, move: string): void {
    this.#tools.logger.warn({ worker: workerId, url, kind, detail, move }, "an attempt failed");
  }
}

const clientGone = (): Error => new Error("the client has gone");

/** Writes an answer of the router itself. */
function sendReply(client: ServerResponse, reply: Reply): void {
  const body = bodyOfReply(reply);
  client.writeHead(reply.status, {
    "content-type": "application/json",
    "content-length": `${Buffer.byteLength(body)}`,
    "cache-control": "no-store",
    ...(reply.retryAfter === undefined ? {} : { "retry-after": `${reply.retryAfter}` }),
  });
  client.end(body);
}

/** Failures that may be the engine's fault. */
const faults: ReadonlySet<FailureKind> = new Set(["refused", "reset", "timeout", "stalled", "status", "error_body"]);

function verdictOf(outcome: Outcome): RequestVerdict {
  if (outcome.end === "answered") return { kind: "served", version: outcome.version };
  if (outcome.end === "client gone") return { kind: "neutral" };
  const { kind, detail } = outcome;
  if (!faults.has(kind)) return { kind: "neutral" };
  return { kind: "failed", refused: kind === "refused", detail };
}

function statusOfFailure(kind: FailureKind, fenced: boolean): Pick<Reply, "status" | "code" | "retryAfter"> {
  if (kind === "timeout" || kind === "stalled") return { status: 504, code: "engine_timeout" };
  if (kind === "busy" || kind === "not_asked") return { status: 503, code: "no_worker", retryAfter: 1 };
  if (kind === "stale") return { status: 503, code: fenced ? "fence_unmet" : "no_worker", retryAfter: 5 };
  return { status: 502, code: kind === "status" || kind === "error_body" ? "engine_failed" : "engine_lost" };
}

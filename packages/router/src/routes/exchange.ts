/** One request from its arrival to its end: attempts at one engine after another, and the answer of the one that gave it. */
import type { ServerResponse } from "node:http";
import type { Logger } from "@muster/base";
import { isFenced } from "../core/fence.ts";
import type { ParsedRequest } from "../core/parse-request.ts";
import type { Ticket } from "../core/pool.ts";
import { bodyOfReply, Refused, type Reply } from "../core/reply.ts";
import { type FailureKind, nextMove, type RetryBudget, type RetryPolicy } from "../core/retry.ts";
import { doneData, eventOf } from "../core/sse.ts";
import { TokenStream } from "../core/token-stream.ts";
import type { RequestVerdict } from "../core/worker.ts";
import type { Admission } from "./admission.ts";
import type { AnswerMemory } from "./answer-memory.ts";
import { Attempt, type AttemptOwner, type AttemptTools, type Outcome } from "./attempt.ts";
import type { Meters } from "./meters.ts";

/** What all exchanges work with. */
export interface ExchangeTools extends AttemptTools {
  readonly admission: Admission;
  readonly budget: RetryBudget;
  readonly retry: RetryPolicy;
  readonly memory: AnswerMemory;
  readonly logger: Logger;
  readonly meters: Meters;
  /** Checks a worker now; resolves when it was. */
  readonly checkNow: (workerId: string) => Promise<void>;
  /** Attempts by their worker, so that those of a lost one end at once. */
  readonly underWay: Map<string, Set<Attempt>>;
}

type Failed = Extract<Outcome, { end: "failed" }>;

/** Answers one request, and waits until its client has the answer. Never throws. */
export function exchange(
  tools: ExchangeTools,
  request: ParsedRequest,
  client: ServerResponse,
  headers: Readonly<Record<string, string>>,
): Promise<void> {
  return new Exchange(tools, request, client, headers).run();
}

const nobody: ReadonlySet<string> = new Set();

class Exchange implements AttemptOwner {
  readonly request: ParsedRequest;
  readonly client: ServerResponse;
  readonly headers: Readonly<Record<string, string>>;
  readonly #tools: ExchangeTools;
  #tried = nobody;
  /** Failures for which the request itself may be the cause, until another engine answers it. */
  readonly #unproven: { readonly ticket: Ticket; readonly verdict: RequestVerdict }[] = [];
  #attempt: Attempt | null = null;
  #heldBytes = 0;
  #isClosed = false;
  #taken: () => void = () => {};
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
    this.request = request;
    this.client = client;
    this.headers = headers;
    this.#tools = tools;
    this.#startedMs = tools.clock.now();
    this.#isClosed = client.destroyed || client.closed;
    if (request.prompt) this.#tokens = new TokenStream(request.body, request.prompt);
  }

  async run(): Promise<void> {
    const { client } = this;
    client.once("close", () => this.#closed());
    try {
      await this.#attempts();
    } catch (error) {
      if (!this.#isClosed) this.#refuse(error instanceof Refused ? error.reply : this.#unexpected(error));
    }
    const { meters, clock, limits } = this.#tools;
    // 499 is what nginx counts for a client that left before its answer.
    const status = this.#isClosed && !client.headersSent ? 499 : client.statusCode;
    meters.request(this.request.route, status, clock.now() - this.#startedMs);
    if (this.#isClosed || client.closed || client.destroyed) return;
    // One that takes nothing of its answer for so long is cut off: by its socket, which knows how much of a large piece has left.
    if (client.socket?.writableLength !== 0) client.setTimeout(limits.clientStallMs, () => client.destroy());
    await new Promise<void>((resolve) => {
      this.#taken = resolve;
    });
  }

  /** The client has its answer, or has left before. One listener for all that follows: each more would cost every request. */
  #closed(): void {
    this.#isClosed = true;
    this.#attempt?.gone();
    this.#leaving?.abort(clientGone());
    this.#release();
    this.#taken();
  }

  hold(bytes: number): boolean {
    this.#heldBytes += bytes;
    return this.#tools.memory.hold(bytes);
  }

  #release(): void {
    this.#tools.memory.release(this.#heldBytes);
    this.#heldBytes = 0;
  }

  async #attempts(): Promise<void> {
    const { budget, admission, meters, retry, clock } = this.#tools;
    let { bytes } = this.request;
    let resumes = false;
    for (let attempts = 1; ; attempts++) {
      const { fence, stickyKey } = this.request;
      if (this.#isClosed) return;
      const need = { fence, stickyKey, tried: this.#tried, resumes };
      const ticket = admission.takeNow(need) ?? (await admission.acquire(need, this.#waitSignal()));
      meters.sticky(ticket.sticky);
      // Without an engine that resumes nothing is read that need not be.
      const tokens = ticket.resumes ? this.#tokens : null;
      const attempt = new Attempt(this.#tools, this, { ticket, attempts, bytes, tokens });
      let outcome: Outcome = { end: "client gone" };
      this.#begins(attempt, ticket);
      try {
        outcome = await attempt.run();
      } finally {
        this.#ends(attempt, ticket, outcome);
      }
      if (outcome.end !== "failed") return;
      meters.failure(outcome.kind);
      this.#tried = new Set([...this.#tried, ticket.workerId]);
      const bytesLeft = this.client.headersSent;
      if (bytesLeft && this.#tokens?.isFinished) return void this.client.end(eventOf(doneData));
      const canContinue = ticket.resumes && (this.#tokens?.canContinue ?? false);
      const takeFromBudget = (): boolean => budget.take(clock.now());
      const { kind } = outcome;
      const move = nextMove({ kind, attempts, attemptsMax: retry.attemptsMax, bytesLeft, canContinue, takeFromBudget });
      if (move !== "retry" && move !== "continue") return this.#giveUp(move, outcome, ticket, attempts);
      meters.retry(move);
      resumes = move === "continue";
      if (resumes) bytes = Buffer.from(JSON.stringify(this.#tokens?.restRequest()));
      else if (this.request.prompt) this.#tokens = new TokenStream(this.request.body, this.request.prompt);
      this.#note(outcome, ticket, move);
    }
  }

  #waitSignal(): AbortSignal {
    this.#leaving ??= new AbortController();
    return this.#leaving.signal;
  }

  #begins(attempt: Attempt, { workerId }: Ticket): void {
    const { underWay } = this.#tools;
    const here = underWay.get(workerId) ?? new Set<Attempt>();
    underWay.set(workerId, here.add(attempt));
    this.#attempt = attempt;
  }

  #ends(attempt: Attempt, ticket: Ticket, outcome: Outcome): void {
    const { admission, underWay } = this.#tools;
    const here = underWay.get(ticket.workerId);
    here?.delete(attempt);
    if (here?.size === 0) underWay.delete(ticket.workerId);
    this.#attempt = null;
    if (outcome.end === "failed") this.#release();
    admission.release(ticket, this.#verdictOf(outcome, ticket));
    if (outcome.end === "answered" && outcome.status === 200)
      for (const one of this.#unproven) admission.judge(one.ticket, one.verdict);
    if (outcome.end === "failed" && outcome.kind !== "busy") void this.#tools.checkNow(ticket.workerId);
  }

  /** A request that fails everywhere may be at fault itself: then it must not take all engines out of service, one after another. */
  #verdictOf(outcome: Outcome, ticket: Ticket): RequestVerdict {
    const verdict = verdictOf(outcome);
    if (verdict.kind !== "failed" || verdict.refused || this.client.headersSent) return verdict;
    this.#unproven.push({ ticket, verdict });
    return { kind: "neutral" };
  }

  firstByte(isEvents: boolean): void {
    this.#isEvents = isEvents;
    if (this.#hasFirstByte) return;
    this.#hasFirstByte = true;
    const { meters, clock } = this.#tools;
    meters.firstToken(this.request.route, clock.now() - this.#startedMs);
  }

  async askVersion({ workerId, life }: Ticket): Promise<string | null> {
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
    this.#refuse({ ...statusOfFailure(kind, isFenced(this.request.fence)), message });
  }

  /** Says what is wrong: as an answer, or as the last event of a stream that has begun, whose connection then breaks off. */
  #refuse(reply: Reply): void {
    const { meters } = this.#tools;
    meters.refused(reply.code);
    if (this.client.destroyed) return;
    if (!this.client.headersSent) return void sendReply(this.client, reply);
    if (!this.#isEvents) return void this.client.destroy();
    this.client.write(eventOf(bodyOfReply(reply)), () => this.client.destroy());
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

/** Requests to one inference server: JSON in, JSON out, each with a deadline, a bound in bytes and a time that it may fall silent. */
import { messageOf } from "@muster/base";
import { Agent, request } from "undici";
import { errors } from "../errors.ts";

/** Times and sizes of requests, in milliseconds. */
export interface ClientTimes {
  /** From a request to the end of its answer. */
  readonly callMs: number;
  /** Between two pieces of an answer that has begun. */
  readonly silenceMs: number;
  /** One health check or question about the server. */
  readonly askMs: number;
}

/** What is sent. */
export interface Call {
  readonly path: string;
  /** Absent: GET. */
  readonly body?: object;
  readonly timeoutMs?: number;
  readonly signal?: AbortSignal;
  /** Longest answer; default 1 MiB. */
  readonly bytesMax?: number;
  /** Statuses that are an answer, too, besides 200 … 299. */
  readonly allowed?: readonly number[];
}

/** What came back. */
export interface Answer {
  readonly status: number;
  /** The object that the body is; `null` for an empty body and for one that is no JSON object. */
  readonly table: Table | null;
}

/** A JSON object whose fields nobody has checked yet. */
export type Table = Readonly<Record<string, unknown>>;

const bytesDefault = 2 ** 20;
const connectMs = 3_000;

/** The object in a value, or `null`. Pure. */
export const tableIn = (value: unknown): Table | null =>
  typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Table) : null;

/** One server. */
export class ServerClient {
  readonly url: string;
  readonly times: ClientTimes;
  readonly #headers: Readonly<Record<string, string>>;
  readonly #agent: Agent;

  /** @param key - Bearer token; empty for none. */
  constructor(url: string, times: ClientTimes, key: string) {
    this.url = url.replace(/\/+$/, "");
    this.times = times;
    this.#headers = { accept: "application/json", ...(key === "" ? {} : { authorization: `Bearer ${key}` }) };
    const connect = { timeout: connectMs };
    // A connection for each request: servers that have a thread for each connection would keep others waiting behind those that are idle.
    this.#agent = new Agent({ connect, headersTimeout: 0, bodyTimeout: times.silenceMs, pipelining: 0 });
  }

  /**
   * Asks.
   *
   * @throws The reason of `signal`; MUSTER_ERR_SERVER_UNREACHABLE for a server that is not there, or is silent; MUSTER_ERR_SERVER_BUSY for 429 and 503,
   *   MUSTER_ERR_SERVER_FAILED for other errors of the server, an error in the body of a 200 included; MUSTER_ERR_SERVER_REFUSES for 400 … 499;
   *   MUSTER_ERR_SERVER_ANSWER for one that is too long or no JSON
   */
  async call(call: Call): Promise<Answer> {
    const { path, allowed = [] } = call;
    const { status, text } = await this.#exchange(call);
    const isWell = (status >= 200 && status < 300) || allowed.includes(status);
    const table = jsonIn(text);
    if (isWell && !table && text.trim() !== "" && allowed.length === 0 && call.body !== undefined && !isPlain(text))
      throw errors.ServerAnswer({ url: this.url, path, reason: `is no JSON object: ${text.slice(0, 100)}` });
    const said = table ? saidIn(table) : null;
    if (isWell && (said === null || allowed.includes(status))) return { status, table };
    const reason = said ?? (text.trim().slice(0, 300) || "it says nothing");
    const facts = { url: this.url, path, status: String(status), reason };
    if (status === 429 || status === 503) throw errors.ServerBusy(facts);
    throw status >= 400 && status < 500 ? errors.ServerRefuses(facts) : errors.ServerFailed(facts);
  }

  async close(): Promise<void> {
    await this.#agent.destroy();
  }

  async #exchange({ path, body, timeoutMs, signal, bytesMax = bytesDefault }: Call) {
    const limitMs = Math.ceil(timeoutMs ?? this.times.askMs);
    const late = AbortSignal.timeout(limitMs);
    const either = signal ? AbortSignal.any([signal, late]) : late;
    try {
      const answer = await request(`${this.url}${path}`, {
        method: body ? "POST" : "GET",
        headers: { ...this.#headers, ...(body ? { "content-type": "application/json" } : {}) },
        body: body ? JSON.stringify(body) : null,
        dispatcher: this.#agent,
        signal: either,
      });
      const chunks: Buffer[] = [];
      let bytes = 0;
      for await (const chunk of answer.body as AsyncIterable<Buffer>) {
        bytes += chunk.length;
        if (bytes > bytesMax)
          throw errors.ServerAnswer({ url: this.url, path, reason: `is longer than ${bytesMax} bytes` });
        chunks.push(chunk);
      }
      return { status: answer.statusCode, text: Buffer.concat(chunks).toString("utf8") };
    } catch (error) {
      signal?.throwIfAborted();
      if (error instanceof Error && "code" in error && String(error.code).startsWith("MUSTER_")) throw error;
      const reason = late.aborted ? `no whole answer to ${path} within ${limitMs} ms` : `${path}: ${messageOf(error)}`;
      throw errors.ServerUnreachable({ url: this.url, reason }, error);
    }
  }
}

/** Some routes answer with a word, such as `Cache flushed.`, which no page of a proxy is. */
const isPlain = (text: string): boolean => text.length < 500 && !/^\s*[<{[]/.test(text);

function jsonIn(text: string): Table | null {
  try {
    return tableIn(JSON.parse(text));
  } catch {
    return null; // the caller says what was there instead
  }
}

/** What an error in a body says; `null` for a body without one. Servers have it as a text, or as a table with a message. */
function saidIn({ error, object, message, detail, success }: Table): string | null {
  const inner = tableIn(error);
  if (inner) return String(inner.message ?? JSON.stringify(inner)).slice(0, 300);
  if (typeof error === "string" && error !== "") return error.slice(0, 300);
  if (object === "error" || success === false) return String(message ?? "it gives no reason").slice(0, 300);
  return detail === undefined || detail === null ? null : String(JSON.stringify(detail)).slice(0, 300);
}

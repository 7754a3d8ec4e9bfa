/** Calls of the coordinator's HTTP interface, with retries. */
import { setTimeout as sleep } from "node:timers/promises";
import { MusterError, messageOf } from "@muster/base";
import { errors } from "../errors.ts";

/** How a coordinator is called. */
export interface CallOptions {
  readonly url: string;
  readonly token?: string | undefined;
  /** Tries after the first; default 3. */
  readonly maxRetries?: number | undefined;
  /** Before the first of them; doubles each time. Default 1. */
  readonly retryDelaySeconds?: number | undefined;
  /** Ends every call. */
  readonly signal: AbortSignal;
}

/** How long one call may take, with all its tries. */
export interface CallLimit {
  /** As `performance.now()` counts; tries end then. */
  readonly endMs?: number;
}

type Value = string | number | boolean | undefined;
const timeoutMs = 30_000;

interface Call extends CallLimit {
  readonly method: string;
  readonly path: string;
  readonly body?: unknown;
}

/** A coordinator at an address. What may pass by itself (no answer, 429, 503) is tried again, later each time. */
export class CoordinatorCalls {
  readonly #options: CallOptions;

  constructor(options: CallOptions) {
    this.#options = options;
  }

  /** GET. @throws MUSTER_ERR_COORDINATOR_REFUSED, MUSTER_ERR_COORDINATOR_GONE */
  get<T>(path: string, query: Readonly<Record<string, Value>> = {}, limit: CallLimit = {}): Promise<T> {
    return this.#retried({ method: "GET", path: path + queryOf(query), ...limit });
  }

  /** POST. @throws as `get`. */
  post<T>(path: string, body: unknown): Promise<T> {
    return this.#retried({ method: "POST", path, body });
  }

  /** DELETE. @throws as `get`. */
  delete<T>(path: string, query: Readonly<Record<string, Value>>): Promise<T> {
    return this.#retried({ method: "DELETE", path: path + queryOf(query) });
  }

  /** One GET without retries. @throws as `get`. */
  getOnce<T>(path: string, query: Readonly<Record<string, Value>>, limit: CallLimit = {}): Promise<T> {
    return this.#once({ method: "GET", path: path + queryOf(query), ...limit });
  }

  async #retried<T>(call: Call): Promise<T> {
    const { maxRetries = 3, retryDelaySeconds = 1, signal } = this.#options;
    for (let attempt = 0; ; attempt++) {
      try {
        return await this.#once(call);
      } catch (error) {
        const mayPass = error instanceof MusterError && error.retryable;
        // Half of the delay is drawn, so that many clients do not come back at once.
        const delayMs = retryDelaySeconds * 1_000 * 2 ** attempt * (0.5 + Math.random() / 2);
        const isOver = performance.now() + delayMs > (call.endMs ?? Number.POSITIVE_INFINITY);
        if (!mayPass || attempt >= maxRetries || isOver || signal.aborted) throw error;
        await sleep(delayMs, undefined, { signal });
      }
    }
  }

  async #once<T>({ method, path, body, endMs = Number.POSITIVE_INFINITY }: Call): Promise<T> {
    const { url, token, signal } = this.#options;
    const headers: Record<string, string> = { "content-type": "application/json" };
    if (token !== undefined) headers.authorization = `Bearer ${token}`;
    const wait = Number(new URL(path, url).searchParams.get("wait_timeout_s") ?? 0);
    const leftMs = Math.max(1, Math.ceil(Math.min(timeoutMs + wait * 1_000, endMs - performance.now())));
    const limit = AbortSignal.any([signal, AbortSignal.timeout(leftMs)]);
    let status: number;
    let answer: { message?: string };
    try {
      const sent = body === undefined ? {} : { body: JSON.stringify(body) };
      const response = await fetch(url.replace(/\/$/, "") + path, { method, headers, signal: limit, ...sent });
      status = response.status;
      answer = (await response.json()) as { message?: string };
    } catch (error) {
      throw errors.CoordinatorGone({ url, reason: messageOf(error) }, error);
    }
    if (status < 300) return answer as T;
    const reason = answer.message ?? `status ${status}`;
    throw status === 429 || status === 503
      ? errors.CoordinatorGone({ url, reason })
      : errors.CoordinatorRefused({ status, reason });
  }
}

function queryOf(query: Readonly<Record<string, Value>>): string {
  const known = new URLSearchParams();
  for (const [key, value] of Object.entries(query)) if (value !== undefined) known.set(key, String(value));
  return known.size === 0 ? "" : `?${known}`;
}

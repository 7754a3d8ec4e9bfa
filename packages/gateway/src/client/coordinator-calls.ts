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

type Value = string | number | boolean | undefined;
const timeoutMs = 30_000;

/** A coordinator at an address. What may pass by itself (no answer, 429, 503) is tried again, later each time. */
export class CoordinatorCalls {
  readonly #options: CallOptions;

  constructor(options: CallOptions) {
    this.#options = options;
  }

  /** GET. @throws MUSTER_ERR_COORDINATOR_REFUSED, MUSTER_ERR_COORDINATOR_GONE */
  get<T>(path: string, query: Readonly<Record<string, Value>> = {}): Promise<T> {
    return this.#retried("GET", path + queryOf(query), undefined);
  }

  /** POST. @throws as `get`. */
  post<T>(path: string, body: unknown): Promise<T> {
    return this.#retried("POST", path, body);
  }

  /** DELETE. @throws as `get`. */
  delete<T>(path: string, query: Readonly<Record<string, Value>>): Promise<T> {
    return this.#retried("DELETE", path + queryOf(query), undefined);
  }

  /** One GET without retries. @throws as `get`. */
  getOnce<T>(path: string, query: Readonly<Record<string, Value>>): Promise<T> {
    return this.#once("GET", path + queryOf(query), undefined);
  }

  async #retried<T>(method: string, path: string, body: unknown): Promise<T> {
    const { maxRetries = 3, retryDelaySeconds = 1, signal } = this.#options;
    for (let attempt = 0; ; attempt++) {
      try {
        return await this.#once(method, path, body);
      } catch (error) {
        const mayPass = error instanceof MusterError && error.retryable;
        if (!mayPass || attempt >= maxRetries || signal.aborted) throw error;
        // Half of the delay is drawn, so that many clients do not come back at once.
        await sleep(retryDelaySeconds * 1_000 * 2 ** attempt * (0.5 + Math.random() / 2), undefined, { signal });
      }
    }
  }

  async #once<T>(method: string, path: string, body: unknown): Promise<T> {
    const { url, token, signal } = this.#options;
    const headers: Record<string, string> = { "content-type": "application/json" };
    if (token !== undefined) headers.authorization = `Bearer ${token}`;
    const wait = Number(new URL(path, url).searchParams.get("wait_timeout_s") ?? 0);
    const limit = AbortSignal.any([signal, AbortSignal.timeout(timeoutMs + wait * 1_000)]);
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

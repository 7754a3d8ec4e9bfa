/** The figures of a router, and what they must be to each other. Pure. */
import type { PoolPolicy } from "./core/pool.ts";
import type { RetryPolicy } from "./core/retry.ts";
import { errors } from "./errors.ts";
import type { AttemptLimits } from "./routes/attempt.ts";
import type { HttpLimits } from "./routes/http-app.ts";

/** Bounds of sessions. */
export interface SessionBounds {
  /** Sessions in the folder. */
  readonly sessionsMax: number;
  /** Bytes of one session. */
  readonly bytesMax: number;
  readonly turnsMax: number;
  /** A session that nobody uses for so long ends. */
  readonly idleMs: number;
}

/** All figures of a router. */
export interface RouterConfig {
  readonly host: string;
  /** 0 for any free port. */
  readonly port: number;
  readonly pool: PoolPolicy;
  readonly healthTimeoutMs: number;
  readonly queue: { readonly queueMax: number; readonly queueTimeoutMs: number; readonly activeMax: number };
  readonly retry: RetryPolicy;
  readonly attempt: AttemptLimits;
  readonly http: HttpLimits;
  readonly sessions: SessionBounds;
  /** For requests that name none; `null` for no limit. */
  readonly maxStaleness: number | null;
}

/** The figures of a router that is given none: slime's where slime has them. */
export const routerDefaults: RouterConfig = {
  host: "127.0.0.1",
  port: 30_000,
  pool: {
    health: { firstWaitMs: 300_000, intervalMs: 10_000, threshold: 3, readmitUnverified: false },
    workersMax: 1_024,
    activeMax: 1_024,
    stickyKeysMax: 100_000,
    stickyIdleMs: 600_000,
  },
  healthTimeoutMs: 5_000,
  queue: { queueMax: 1_024, queueTimeoutMs: 30_000, activeMax: 8_192 },
  retry: { attemptsMax: 4, share: 0.2, reserve: 256 },
  attempt: {
    ...{ timeoutMs: 3_600_000, stallMs: 300_000, clientStallMs: 60_000 },
    ...{ answerBytesMax: 64 * 1024 ** 2, answersBytesMax: 1024 ** 3 },
  },
  http: {
    ...{ bodyBytesMax: 32 * 1024 ** 2, bodiesBytesMax: 1024 ** 3, connectionsMax: 8_192 },
    ...{ receiveMs: 60_000, clientStallMs: 60_000 },
  },
  sessions: { sessionsMax: 100_000, bytesMax: 64 * 1024 ** 2, turnsMax: 1_024, idleMs: 3_600_000 },
  maxStaleness: null,
};

/** @throws MUSTER_ERR_ROUTER_OPTION when two figures do not fit together. */
export function checkRouterConfig(config: RouterConfig): RouterConfig {
  const { pool, healthTimeoutMs } = config;
  const { intervalMs } = pool.health;
  // A check that may take longer than the time between two of them would put off the next one.
  if (healthTimeoutMs >= intervalMs)
    throw errors.RouterOption({
      ...{ option: "--rollout-health-check-timeout", value: `${healthTimeoutMs} ms` },
      reason: `must be less than --rollout-health-check-interval, which is ${intervalMs} ms`,
    });
  const { bodyBytesMax, bodiesBytesMax } = config.http;
  if (bodiesBytesMax < bodyBytesMax)
    throw errors.RouterOption({
      ...{ option: "--bodies-limit", value: `${bodiesBytesMax} bytes` },
      reason: `must be at least --body-limit, which is ${bodyBytesMax} bytes`,
    });
  return config;
}

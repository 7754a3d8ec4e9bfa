/** A router for one test, with figures that make it quick, and clients that ask it. */
import { type Logger, silentLogger } from "@muster/base";
import { systemClock } from "@muster/runtime";
import { createMetrics } from "@muster/runtime/metrics";
import { onTestFinished } from "vitest";
import { type Router, type RouterConfig, routerDefaults, startRouter } from "../../src/index.ts";
import { FakeEngine, type FakeOptions } from "./fake-engine.ts";

type Deep<T> = { readonly [K in keyof T]?: T[K] extends object ? Deep<T[K]> : T[K] };

const quick: Deep<RouterConfig> = {
  port: 0,
  healthTimeoutMs: 200,
  pool: { health: { firstWaitMs: 0, intervalMs: 250 } },
  queue: { queueTimeoutMs: 5_000 },
};

function merged<T extends object>(base: T, over: Deep<T>): T {
  const entries = Object.entries(over).map(([key, value]) => {
    const below = (base as Record<string, unknown>)[key];
    const isTable = typeof value === "object" && value !== null && typeof below === "object" && below !== null;
    return [key, isTable ? merged(below, value as object) : value];
  });
  return { ...base, ...Object.fromEntries(entries) };
}

export interface OpenedRouter {
  readonly router: Router;
  readonly url: string;
  ask(path: string, body?: unknown, headers?: Record<string, string>): Promise<Response>;
  metrics(): Promise<string>;
  /** Waits until the workers are so. */
  until(what: string, holds: (workers: ReturnType<Router["workers"]>) => boolean): Promise<void>;
}

/** Starts a router over these engines; both are closed when the test is over. */
export async function openRouter(
  engines: readonly (FakeEngine | string)[],
  config: Deep<RouterConfig> = {},
  tokens: { inference?: string; admin?: string; engine?: string; sessions?: string; logger?: Logger } = {},
): Promise<OpenedRouter> {
  const metrics = createMetrics();
  const router = await startRouter({
    config: merged(merged(routerDefaults, quick), config),
    tokens: { inference: tokens.inference ?? null, admin: tokens.admin ?? null },
    engineToken: tokens.engine ?? null,
    ...(tokens.sessions === undefined ? {} : { sessions: tokens.sessions }),
    clock: systemClock(),
    logger: tokens.logger ?? silentLogger,
    metrics,
  });
  onTestFinished(() => router.close(0).then(() => {}));
  const url = `http://127.0.0.1:${router.port}`;
  const until: OpenedRouter["until"] = async (what, holds) => {
    const endMs = Date.now() + 8_000;
    while (!holds(router.workers())) {
      if (Date.now() > endMs) throw new Error(`not seen: ${what}; ${JSON.stringify(router.workers())}`);
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
  };
  for (const engine of engines) router.add(typeof engine === "string" ? engine : engine.url);
  if (engines.every((engine) => typeof engine !== "string"))
    await until("all engines healthy", (workers) => workers.every(({ state }) => state === "healthy"));
  return {
    ...{ router, url, until, metrics: () => metrics.render() },
    ask: (path, body, headers = {}) =>
      fetch(`${url}${path}`, {
        ...(body === undefined
          ? {}
          : {
              method: "POST",
              body: typeof body === "string" ? body : JSON.stringify(body),
              headers: { "content-type": "application/json", ...headers },
            }),
        ...(body === undefined ? { headers } : {}),
      }),
  };
}

/** Starts an engine that ends with the test. */
export async function startEngine(options: FakeOptions = {}): Promise<FakeEngine> {
  const engine = await FakeEngine.start(options);
  onTestFinished(() => engine.kill().catch(() => {}));
  return engine;
}

/** The data of the events of a stream; `broken` when its connection broke off. */
export async function eventsOf(response: Response): Promise<{ data: unknown[]; isDone: boolean; isBroken: boolean }> {
  const reader = response.body?.getReader();
  const decoder = new TextDecoder();
  let text = "";
  let isBroken = false;
  try {
    for (let read = await reader?.read(); read && !read.done; read = await reader?.read())
      text += decoder.decode(read.value, { stream: true });
  } catch {
    isBroken = true;
  }
  const lines = text
    .split("\n")
    .filter((line) => line.startsWith("data: "))
    .map((line) => line.slice(6));
  const data = lines.filter((line) => line !== "[DONE]").map((line) => JSON.parse(line) as unknown);
  return { data, isDone: lines.includes("[DONE]"), isBroken };
}

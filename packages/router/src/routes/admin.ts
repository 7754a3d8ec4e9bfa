/** The routes by which workers come and go: those of SlimeRouter and those of SGLang's model gateway. */
import { MusterError } from "@muster/base";
import type { FastifyInstance } from "fastify";
import { isTable, textOf } from "../core/answer-facts.ts";
import type { Pool, WorkerView } from "../core/pool.ts";
import { invalid, Refused } from "../core/reply.ts";
import { isServing } from "../core/worker.ts";
import { workerIdOf, workerUrlOf } from "../core/worker-url.ts";
import { tableIn } from "./bodies.ts";
import { scopedTo } from "./http-app.ts";

/** What the routes work on. */
export interface AdminTools {
  readonly pool: Pool;
  /** Adds a worker, or begins another life of one that is there. @returns False when the pool is full. */
  readonly add: (url: string, about: { labels?: Readonly<Record<string, string>>; model?: string | null }) => boolean;
  /** @returns False when there is none of this name. */
  readonly remove: (id: string) => boolean;
  readonly setCurrent: (version: string) => void;
}

/** Adds the routes. */
export function addAdminRoutes(app: FastifyInstance, tools: AdminTools): void {
  const { pool } = tools;
  const read = scopedTo("read");
  const admin = scopedTo("admin");
  const counts = () => Object.fromEntries(pool.workers().map(({ url, active }) => [url, active]));
  app.get("/list_workers", read, async () => ({ urls: pool.workers().map(({ url }) => url) }));
  app.get("/quarantined", read, async () => ({
    workers: pool
      .workers()
      .filter(({ state }) => state === "quarantined")
      .map(shownOf),
  }));
  app.post("/add_worker", admin, async ({ query, body }) => {
    add(tools, urlIn(query, tableIn(body)), {});
    return { status: "success", worker_urls: counts() };
  });
  app.post("/remove_worker", admin, async ({ query, body }) => {
    remove(tools, workerIdOf(urlOf(urlIn(query, tableIn(body)))));
    return { status: "success", worker_urls: counts() };
  });
  app.get("/workers", read, async () => {
    const workers = pool.workers().map(shownOf);
    const stats = { prefill_count: 0, decode_count: 0, regular_count: workers.length };
    return { workers, total: workers.length, stats, newest_weight_version: pool.newest };
  });
  app.get("/workers/:id", read, async ({ params }) => {
    const worker = pool.worker(idIn(params));
    if (!worker) throw unknownWorker(idIn(params));
    return shownOf(worker);
  });
  app.post("/workers", admin, async ({ body }, reply) => {
    const table = tableIn(body);
    const url = add(tools, table.url, aboutOf(table));
    const id = workerIdOf(url);
    return reply.code(202).send({ status: "accepted", worker_id: id, url, location: `/workers/${id}` });
  });
  app.delete("/workers/:id", admin, async ({ params }, reply) => {
    const id = idIn(params);
    remove(tools, id);
    return reply.code(202).send({ status: "accepted", worker_id: id });
  });
  app.post("/weight_version", admin, async ({ body }) => {
    const version = textOf(tableIn(body).weight_version);
    if (version === null) throw invalid("weight_version must be a whole number, or a text of 1 to 128 characters");
    tools.setCurrent(version);
    return { success: true, weight_version: version };
  });
}

/** A worker in the form of SGLang's model gateway, and what Muster knows beside. */
function shownOf(worker: WorkerView): Readonly<Record<string, unknown>> {
  const { id, url, model, active, state, why, life, version, resumes, labels } = worker;
  return {
    ...{ id, url, model_id: model ?? "unknown", priority: 50, cost: 1, worker_type: "regular" },
    ...{ is_healthy: isServing(worker), load: active, connection_mode: "Http", labels },
    ...{ state, why, life, weight_version: version, resumes },
    ...{ failed_checks: worker.probeFailures, failed_requests: worker.requestFailures },
  };
}

function urlIn(query: unknown, body: Readonly<Record<string, unknown>>): unknown {
  const asked = isTable(query) ? query : {};
  return asked.url ?? asked.worker_url ?? body.url ?? body.worker_url;
}

function urlOf(value: unknown): string {
  if (typeof value !== "string" || value === "")
    throw invalid("url is missing: name the worker as ?url=http://HOST:PORT or in a JSON body");
  try {
    return workerUrlOf(value);
  } catch (error) {
    throw error instanceof MusterError ? invalid(error.message) : error;
  }
}

function add(tools: AdminTools, value: unknown, about: Parameters<AdminTools["add"]>[1]): string {
  const url = urlOf(value);
  if (tools.add(url, about)) return url;
  throw new Refused({
    ...{ status: 503, code: "pool_full" },
    message: `url: the router has ${tools.pool.workers().length} workers already, as many as it takes`,
  });
}

function remove(tools: AdminTools, id: string): void {
  if (!tools.remove(id)) throw unknownWorker(id);
}

function unknownWorker(id: string): Refused {
  return new Refused({ status: 404, code: "not_found", message: `there is no worker ${id.slice(0, 64)}` });
}

const labelsMax = 32;

function aboutOf({ labels = {}, model_id: model }: Readonly<Record<string, unknown>>): {
  labels: Readonly<Record<string, string>>;
  model: string | null;
} {
  const isTexts = isTable(labels) && Object.values(labels).every((value) => typeof value === "string");
  if (!isTexts || Object.keys(labels).length > labelsMax || JSON.stringify(labels).length > 4096)
    throw invalid(`labels must be an object of at most ${labelsMax} texts`);
  return { labels: labels as Readonly<Record<string, string>>, model: textOf(model) };
}

/** A worker in a path: its id, or its address as the model gateway of SGLang names it. */
function idIn(params: unknown): string {
  const id = isTable(params) ? `${params.id}` : "";
  return /^https?:\/\//.test(id) ? workerIdOf(urlOf(id)) : id;
}

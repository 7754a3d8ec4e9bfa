/** Engines over contract servers, closed behind each test. */
import { needsOfTask, taskOf } from "@muster/data";
import type { JobConfig } from "@muster/protocol";
import { makeTempDirectory, type TempDirectory } from "@muster/testkit";
import { afterEach, beforeEach } from "vitest";
import { embeddedAdapter } from "../../src/embedded/index.ts";
import type { GenerateRequest, RolloutEngine } from "../../src/index.ts";
import { inlineWeights } from "../../src/internal.ts";
import { servedAdapterOf } from "../../src/served/index.ts";
import { ContractServer, type Kind } from "./contract-server.ts";

export const kinds = ["openai", "sglang", "vllm"] as const;
export const never = new AbortController().signal;
const needs = needsOfTask(taskOf("dates"));
const trainer = embeddedAdapter.describe({}, needs);
/** A section of zeros. */
export const weights = new Uint8Array(
  (trainer.tensors.at(-1)?.offsetBytes ?? 0) + (trainer.tensors.at(-1)?.sizeBytes ?? 0),
);
export const config = {
  task: { name: "dates", reward: "exact-match" },
  replicas: { rollout: 1 },
} as unknown as JobConfig;
export const tokensPath = (kind: Kind): string => (kind === "sglang" ? "/generate" : "/v1/completions");
const sampling = { temperature: 1, maxNewTokens: 8, stopTokenIds: [0] };

export function requestOf(patch: Partial<GenerateRequest> = {}): GenerateRequest {
  return { requestId: "r", promptIds: Int32Array.of(1, 2, 3), n: 12, sampling, seed: 11, ...patch };
}

/** What tests of one file start. */
export function servedFixture() {
  let folder: TempDirectory;
  let servers: ContractServer[];
  let engines: RolloutEngine[];
  beforeEach(async () => {
    folder = await makeTempDirectory();
    servers = [];
    engines = [];
  });
  afterEach(async () => {
    for (const engine of engines) await engine.close();
    for (const server of servers) await server.kill().catch(() => {}); // some tests killed it
    await folder.remove();
  });

  async function start(kind: Kind): Promise<ContractServer> {
    const server = await ContractServer.start(kind);
    servers.push(server);
    return server;
  }

  async function open(kind: Kind, urls: readonly string[], more: object = {}): Promise<RolloutEngine> {
    const adapter = servedAdapterOf(kind, process.env);
    const short = { call_seconds: 0.3, silence_seconds: 0.2, health_seconds: 0.5, start_seconds: 3, load_seconds: 2 };
    const reload = kind === "openai" ? { reload: "/reload" } : {};
    const given = { url: urls.join(" "), servers: urls.length, folder: folder.path, ...short, ...reload, ...more };
    const options = adapter.schema.parse(given) as Parameters<NonNullable<typeof adapter.openRollout>>[0];
    const engine = await adapter.openRollout!(options, { needs, config, trainer });
    engines.push(engine);
    return engine;
  }

  /** A server with an engine that gave it version 7, of zeros. */
  async function serving(kind: Kind, more: object = {}) {
    const server = await start(kind);
    const engine = await open(kind, [server.url], more);
    await engine.updateWeights(inlineWeights(7, weights));
    return { server, engine };
  }

  return { folder: () => folder.path, open, serving, start };
}

/**
 * Looks after one engine: is it alive, which weights has it. Engines of several kinds answer under several names; the name that worked is asked
 * first the next time.
 */
import type { Clock } from "@muster/base";
import type { Agent } from "undici";
import { textOf } from "../core/answer-facts.ts";
import type { ProbeResult } from "../core/worker.ts";
import { type Asked, ask } from "./fetch-json.ts";

/** SGLang generates a token for the first, vLLM knows the second, a plain OpenAI server only the third. */
const healthPaths = ["/health_generate", "/health", "/v1/models"] as const;
/** SGLang, SGLang before 0.5, vLLM. */
const versionPaths = ["/model_info", "/get_model_info", "/weight_info"] as const;

/** Which names an engine answers to. */
export interface KnownPaths {
  health: string | null;
  /** `""` when it has none. */
  version: string | null;
}

/** How an engine is asked. */
export interface ProbeOptions {
  readonly agent: Agent;
  readonly clock: Clock;
  readonly origin: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly timeoutMs: number;
  readonly paths: KnownPaths;
}

/** Checks an engine: within the time-out, all questions together. */
export async function probe(options: ProbeOptions): Promise<ProbeResult> {
  const { clock, timeoutMs, paths } = options;
  const endMs = clock.now() + timeoutMs;
  const askFor = (path: string): Promise<Asked> => {
    const { agent, origin, headers } = options;
    return ask(agent, clock, { origin, path, headers, timeoutMs: Math.max(1, endMs - clock.now()) });
  };
  const health = await firstOf(paths.health === null ? healthPaths : [paths.health], askFor);
  const { asked } = health;
  if (asked.status === null) return { ok: false, refused: asked.refused, detail: asked.detail };
  if (asked.status !== 200) {
    paths.health = null;
    return { ok: false, refused: false, detail: `${health.path} answered ${asked.status}` };
  }
  paths.health = health.path;
  return await probeVersion(paths, askFor);
}

async function probeVersion(paths: KnownPaths, askFor: (path: string) => Promise<Asked>): Promise<ProbeResult> {
  const nothing = { ok: true, version: null, incarnation: null, resumes: false, model: null } as const;
  if (paths.version === "") return nothing;
  const { asked, path } = await firstOf(paths.version === null ? versionPaths : [paths.version], askFor);
  if (asked.status === null) return { ok: false, refused: asked.refused, detail: `${path}: ${asked.detail}` };
  if (asked.status === 404 || asked.status === 405) {
    // It had one before: another server may have taken the address, so all are asked again the next time.
    paths.version = paths.version === null ? "" : null;
    return nothing;
  }
  if (asked.status !== 200) return { ok: false, refused: false, detail: `${path} answered ${asked.status}` };
  paths.version = path;
  const table = asked.table ?? {};
  return {
    ok: true,
    version: textOf(table.weight_version),
    incarnation: textOf(table.incarnation),
    resumes: table.resumes === true,
    model: textOf(table.model_path),
  };
}

/** Asks under one name after another until one is known. */
async function firstOf(
  names: readonly string[],
  askFor: (path: string) => Promise<Asked>,
): Promise<{ readonly path: string; readonly asked: Asked }> {
  let last: { path: string; asked: Asked } | null = null;
  for (const path of names) {
    const asked = await askFor(path);
    last = { path, asked };
    if (asked.status !== 404 && asked.status !== 405) break;
  }
  return last ?? { path: "", asked: { status: null, refused: false, detail: "nothing to ask" } };
}

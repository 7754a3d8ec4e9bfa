/** SGLang, from its published routes (docs/advanced_features/sglang_for_rl.md and native_api of sgl-project/sglang). */
import { hasCode } from "@muster/base";
import { textPairs } from "./checksums.ts";
import { type ServerClient, tableIn } from "./client.ts";
import { type Dialect, type Drawn, finishIn, numbersIn, textsIn, type WeightPlace, whilePaused } from "./dialect.ts";

/** Between two tries to flush the cache: a server refuses while requests are still on their way out. */
const flushEveryMs = 100;

export const sglangDialect: Dialect = {
  kind: "sglang",
  stamps: true,
  logprobs: "sampled-dist",
  healthPath: "/health",
  deepHealthPath: "/health_generate",
  request({ id, promptIds, seed, temperature, maxNewTokens, stopTokenIds }) {
    const sampling_params = {
      n: 1,
      max_new_tokens: maxNewTokens,
      temperature,
      ...{ top_p: 1, top_k: -1, min_p: 0 },
      stop_token_ids: stopTokenIds,
      ignore_eos: stopTokenIds.length === 0,
      skip_special_tokens: false,
      sampling_seed: seed,
    };
    const body = { rid: id, input_ids: [...promptIds], sampling_params, stream: false };
    return { path: "/generate", body: { ...body, return_logprob: true, logprob_start_len: -1 } };
  },
  drawnIn(answer): Drawn {
    const meta = tableIn(answer.meta_info);
    if (!meta) throw new Error("has no meta_info");
    const finish = finishIn(tableIn(meta.finish_reason)?.type);
    const pairs = meta.output_token_logprobs ?? (finish === "abort" ? [] : null);
    if (!Array.isArray(pairs)) throw new Error("has no meta_info.output_token_logprobs");
    const ids = numbersIn(
      pairs.map((pair) => pair?.[1]),
      "meta_info.output_token_logprobs[][1]",
    );
    const logprobs = numbersIn(
      pairs.map((pair) => pair?.[0]),
      "meta_info.output_token_logprobs[][0]",
    );
    return { ids, logprobs, finish, versions: versionsIn(meta) };
  },
  async facts(client, signal) {
    const { table: info } = await askEither(client, ["/model_info", "/get_model_info"], signal);
    const { table: server } = await askEither(client, ["/server_info", "/get_server_info"], signal);
    const text = (value: unknown): string => (value === undefined || value === null ? "" : String(value));
    const names = ["version", "tp_size", "dp_size", "attention_backend", "enable_deterministic_inference"];
    const told = names.flatMap((name) => (text(server?.[name]) === "" ? [] : [[name, text(server?.[name])]]));
    const version = info?.weight_version;
    return {
      model: text(info?.model_path),
      version: typeof version === "string" ? version : null,
      more: Object.fromEntries(told) as Record<string, string>,
    };
  },
  async load(client, place, timeoutMs) {
    const untilMs = performance.now() + timeoutMs;
    await whilePaused(
      client,
      () => optional(client, "/pause_generation", { mode: "abort" }),
      () => update(client, place, untilMs),
      () => optional(client, "/continue_generation", {}),
    );
  },
  checksum: { path: "/weights_checker", sumsIn },
  async abort(client, ids) {
    for (const rid of ids) await client.call({ path: "/abort_request", body: { rid, abort_all: false } });
  },
};

async function update(client: ServerClient, { path, tag }: WeightPlace, untilMs: number): Promise<void> {
  await flush(client, untilMs);
  const body = { model_path: path, weight_version: tag, flush_cache: true, abort_all_requests: false };
  // An answer with `success: false` is an error of the server for the client.
  await client.call({ path: "/update_weights_from_disk", body, timeoutMs: Math.max(1, untilMs - performance.now()) });
}

/** @throws what the server said last, when the time is over. */
async function flush(client: ServerClient, untilMs: number): Promise<void> {
  for (;;) {
    try {
      await client.call({ path: "/flush_cache", body: {} });
      return;
    } catch (error) {
      if (performance.now() + flushEveryMs >= untilMs) throw error;
      await new Promise((resolve) => setTimeout(resolve, flushEveryMs));
    }
  }
}

/** A route that older servers do not have. */
async function optional(client: ServerClient, path: string, body: object): Promise<void> {
  await client.call({ path, body, allowed: [404] });
}

/** Asks the first route of these that the server has: the names changed. */
async function askEither(client: ServerClient, [newer, older]: readonly [string, string], signal: AbortSignal) {
  try {
    return await client.call({ path: newer, signal });
  } catch (error) {
    if (!hasCode(error, "MUSTER_ERR_SERVER_REFUSES")) throw error;
    return await client.call({ path: older, signal });
  }
}

/** Each rank has a table of its tensors, and says which one it is. */
function sumsIn({ ranks }: Readonly<Record<string, unknown>>) {
  if (!Array.isArray(ranks)) return null;
  const all: [string, string][] = [];
  for (const rank of ranks) {
    const pairs = textPairs(tableIn(rank?.checksums));
    if (!pairs) return null;
    for (const [name, sum] of pairs) all.push([`${JSON.stringify(rank.parallelism_info)} ${name}`, sum]);
  }
  return all;
}

/** Spans where the server has them; older ones stamp the last token alone. */
function versionsIn({ weight_versions: spans, weight_version: last }: Readonly<Record<string, unknown>>): string[] {
  if (Array.isArray(spans) && spans.length > 0)
    return textsIn(
      spans.map((span) => tableIn(span)?.version),
      "meta_info.weight_versions[].version",
    );
  return typeof last === "string" ? [last] : [];
}

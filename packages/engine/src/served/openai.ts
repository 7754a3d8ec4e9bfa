/**
 * Any server with `/v1/completions` that gives token ids and log-probabilities, such as llama.cpp's llama-server
 * (https://github.com/ggml-org/llama.cpp/tree/master/tools/server). It has no word for weights: their name is that of the model.
 */
import { type ServerClient, tableIn } from "./client.ts";
import { completionIn, completionOf } from "./completions.ts";
import type { Dialect, Drawn, ServerFacts } from "./dialect.ts";
import { isTag } from "./tag.ts";

/** @param reload - Route that loads weights from a path; empty for a server that has none. */
export const openaiDialect = (reload: string): Dialect => ({
  kind: "openai",
  stamps: false,
  logprobs: "raw",
  healthPath: "/v1/models",
  deepHealthPath: null,
  request: completionOf,
  drawnIn(answer): Drawn {
    const { model } = answer;
    return { ...completionIn(answer), versions: typeof model === "string" && isTag(model) ? [model] : [] };
  },
  facts: modelFacts,
  ...(reload === ""
    ? {}
    : {
        async load(client, { path, tag }, timeoutMs) {
          await client.call({ path: reload, body: { model_path: path, weight_version: tag }, timeoutMs });
        },
      }),
});

/** What `/v1/models` says. A model with the name of weights says which these are. */
export async function modelFacts(client: ServerClient, signal: AbortSignal): Promise<ServerFacts> {
  const { table } = await client.call({ path: "/v1/models", signal });
  const models = (Array.isArray(table?.data) ? table.data : []).map(tableIn);
  const names = models.flatMap((model) => (typeof model?.id === "string" ? [model.id] : []));
  const [model = ""] = names;
  const owner = models[0]?.owned_by;
  const length = models[0]?.max_model_len ?? tableIn(models[0]?.meta)?.n_ctx;
  return {
    model,
    version: names.find(isTag) ?? null,
    more: {
      ...(typeof owner === "string" ? { "owned by": owner } : {}),
      ...(typeof length === "number" ? { context: String(length) } : {}),
    },
  };
}

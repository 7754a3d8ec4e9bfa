/**
 * vLLM's OpenAI-compatible server, from its documentation (https://docs.vllm.ai): tokens by `return_token_ids`, weights from a folder by `reload_weights` of
 * its workers, which needs `VLLM_SERVER_DEV_MODE=1`.
 */
import { hasCode, messageOf } from "@muster/base";
import { errors } from "../errors.ts";
import { textPairs } from "./checksums.ts";
import { type ServerClient, tableIn } from "./client.ts";
import { completionIn, completionOf } from "./completions.ts";
import { type Dialect, type Drawn, textsIn, whilePaused } from "./dialect.ts";
import { modelFacts } from "./openai.ts";

export const vllmDialect: Dialect = {
  kind: "vllm",
  stamps: false,
  logprobs: "raw",
  healthPath: "/health",
  deepHealthPath: null,
  request: completionOf,
  drawnIn(answer): Drawn {
    const spans = answer.weight_versions;
    const versions = Array.isArray(spans)
      ? textsIn(
          spans.map((span) => span?.version),
          "weight_versions[].version",
        )
      : [];
    return { ...completionIn(answer), versions };
  },
  async facts(client, signal) {
    const { model, more } = await modelFacts(client, signal);
    const { table: info } = await client.call({ path: "/weight_info", signal, allowed: [404] });
    const { table: about } = await client.call({ path: "/version", signal, allowed: [404] });
    const [version, release] = [info?.weight_version, about?.version];
    return {
      model,
      version: typeof version === "string" ? version : null,
      more: { ...more, ...(typeof release === "string" ? { version: release } : {}) },
    };
  },
  async load(client, { path, tag }, timeoutMs) {
    const tell = (route: string, body: object, allowed: readonly number[] = []): Promise<unknown> =>
      client.call({ path: route, body, timeoutMs, allowed });
    await whilePaused(
      client,
      () => developing(client, () => tell("/pause?mode=abort", {})),
      async () => {
        const seconds = timeoutMs / 1000;
        await tell("/collective_rpc", { method: "reload_weights", kwargs: { weights_path: path }, timeout: seconds });
        await tell("/reset_prefix_cache", {});
        // A server that has no word for versions says so when it is asked for its own.
        await tell("/update_weight_version", { new_version: tag }, [404]);
      },
      () => tell("/resume", {}),
    );
  },
  // Names are those of the shard: dp0:pp0:pcp0:tp0:model.norm.weight (https://docs.vllm.ai/en/latest/training/weight_checker/).
  checksum: { path: "/weight_checker", sumsIn: ({ checksums }) => textPairs(tableIn(checksums)) },
};

/** @throws what the call throws; MUSTER_ERR_SERVER_ROUTES where the server has no such route */
async function developing({ url }: ServerClient, run: () => Promise<unknown>): Promise<void> {
  try {
    await run();
  } catch (error) {
    if (!hasCode(error, "MUSTER_ERR_SERVER_REFUSES")) throw error;
    const fix = "start it with VLLM_SERVER_DEV_MODE=1 in its environment";
    throw errors.ServerRoutes({ url, reason: messageOf(error), fix }, error);
  }
}

/** `muster doctor --engine sglang|vllm|openai --url …`: what a server is, what it can, and which promises hold with it. */
import { messageOf } from "@muster/base";
import type { EngineFinding } from "../registry/adapter.ts";
import { askChecksum } from "./checksums.ts";
import { ServerClient } from "./client.ts";
import type { Dialect, ServerFacts } from "./dialect.ts";
import { dialectOf, type ServedKind } from "./options.ts";

const times = { callMs: 30_000, silenceMs: 10_000, askMs: 5_000 };

/** What was given to the command. */
export interface DoctorGiven {
  readonly url?: string;
  readonly key?: string;
}

/** Looks at a server without changing anything there. Never throws: what does not work is a finding. */
export async function servedFindings(kind: ServedKind, given: DoctorGiven): Promise<readonly EngineFinding[]> {
  const { url, key = "" } = given;
  if (url === undefined)
    return [warn(kind, "no server was looked at", `name one: muster doctor --engine ${kind} --url http://host:port`)];
  const client = new ServerClient(url, times, key);
  const dialect = dialectOf(kind, "");
  try {
    const facts = await dialect.facts(client, new AbortController().signal);
    const drawn = await draws(dialect, client, facts);
    const weights = [...versions(kind, facts, dialect), ...(await checksums(dialect, client))];
    return [ok(kind, `${url}: ${shown(facts)}`), drawn, ...weights, promises(kind, facts)];
  } catch (error) {
    const fix = `is it a server of the kind ${kind}, and does it run? --engine openai is for others`;
    return [{ state: "missing", name: kind, detail: messageOf(error), fix }];
  } finally {
    await client.close();
  }
}

const ok = (name: string, detail: string): EngineFinding => ({ state: "ok", name, detail, fix: null });
const warn = (name: string, detail: string, fix: string): EngineFinding => ({ state: "warn", name, detail, fix });

function shown({ model, version, more }: ServerFacts): string {
  const told = Object.entries({ model: model || "not named", weights: version ?? "not said", ...more });
  return told.map(([name, value]) => `${name} ${value}`).join(", ");
}

/** Draws two tokens, with ids and log-probabilities. */
async function draws(dialect: Dialect, client: ServerClient, { model }: ServerFacts): Promise<EngineFinding> {
  const name = "tokens";
  const sampling = { temperature: 1, maxNewTokens: 2, stopTokenIds: [], seed: 1 };
  const { path, body } = dialect.request({ id: "muster-doctor", promptIds: Int32Array.of(1), model, ...sampling });
  try {
    const { table } = await client.call({ path, body, timeoutMs: times.callMs });
    const { ids, logprobs, versions: said } = dialect.drawnIn(table ?? {});
    const of = said.length > 0 ? `, of the weights ${said.join(", ")}` : "";
    return ok(name, `${path} gives ${ids.length} token ids and ${logprobs.length} log-probabilities${of}`);
  } catch (error) {
    const fix =
      "the server must give token ids and log-probabilities; without them its responses can not be trained on";
    return { state: "missing", name, detail: messageOf(error), fix };
  }
}

function versions(kind: ServedKind, { version }: ServerFacts, { load }: Dialect): readonly EngineFinding[] {
  const name = "weights";
  if (kind === "openai")
    return [
      warn(
        name,
        version === null ? "loaded when it starts; it does not say which" : `loaded when it starts; named ${version}`,
        "let Muster start it: engine.openai.command, with {tag} as the name of the model",
      ),
    ];
  if (version !== null && load) return [ok(name, `loaded from a folder while it runs, and named (now ${version})`)];
  const fix =
    kind === "vllm"
      ? "start it with VLLM_SERVER_DEV_MODE=1, in a release that has /weight_info"
      : 'use a release that says weight_version, or set engine.sglang.unverified = "accept"';
  return [warn(name, "it does not say which weights it has, so its responses would be refused", fix)];
}

/** Whether the weights themselves can be checked; their name is enough to use it. */
async function checksums({ checksum }: Dialect, client: ServerClient): Promise<readonly EngineFinding[]> {
  if (!checksum) return [];
  const name = "checksums";
  try {
    const call = { signal: new AbortController().signal, timeoutMs: times.callMs };
    const found = await askChecksum(checksum, client, call);
    if (typeof found === "string") return [ok(name, `none, so its weights go by their name: ${found}`)];
    return [ok(name, `${checksum.path} gives those of its weights; all together ${found.digest.slice(0, 16)}`)];
  } catch (error) {
    const fix = `its ${checksum.path} must answer, or say that there is none (404): it is asked after each load`;
    return [warn(name, messageOf(error), fix)];
  }
}

/** Levels: what holds of a job whose samples come from this server. */
function promises(kind: ServedKind, { more }: ServerFacts): EngineFinding {
  const name = "promises";
  const always = "nothing lost or trained twice, same order of data and same seeds";
  if (more.enable_deterministic_inference?.toLowerCase() === "true")
    return ok(
      name,
      `${always}; it says that equal requests get equal responses (check with kills: same final weights)`,
    );
  const why =
    kind === "sglang"
      ? "start it with --enable-deterministic-inference and --disable-radix-cache for equal responses"
      : kind === "vllm"
        ? "vLLM does not say over HTTP whether VLLM_BATCH_INVARIANT=1 is set; only then may responses be equal"
        : "such servers compute in batches, so a response may differ when it is drawn again";
  return ok(name, `${always}; not the same responses twice: ${why}`);
}

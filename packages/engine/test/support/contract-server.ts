/**
 * Inference servers written from the published routes of SGLang, vLLM and OpenAI's interface, which misbehave when asked to. Of weights they have a name,
 * which answers carry, and what their checksum hashes: the bytes of the files. Unknown keys of requests are ignored, as SGLang does.
 */
import { createHash } from "node:crypto";
import { readFile } from "node:fs/promises";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

export type Kind = "openai" | "sglang" | "vllm";

export type Fault =
  | "hangs"
  | "500"
  | "503"
  | "error in a 200"
  | "hangs in its answer"
  | "dies in its answer"
  | "garbage"
  | "endless answer"
  | "wild token"
  | "no logprobs"
  | "another end"
  | "aborts";

type Body = Readonly<Record<string, unknown>>;

/** A server of one kind. */
export class ContractServer {
  readonly kind: Kind;
  /** Faults of the next answers to requests for tokens, one each; afterwards it is well. */
  faults: Fault[] = [];
  /** Fault of every answer. */
  always: Fault | null = null;
  /** Paths that answer with this status. */
  readonly broken = new Map<string, number>();
  version = "default";
  /** Whether it says which weights it has. */
  isTelling = true;
  /** Whether its answers name the model that the request named. */
  isEchoing = false;
  isPaused = false;
  /** Whether it has a route for checksums of its weights. */
  isHashing = true;
  /** What a load does, beside taking the name: all of it, nothing, or something that went wrong on the way. */
  loads: "well" | "nothing" | "other bytes" = "well";
  /** What a load says that does nothing, with status 200. */
  refusal = "";
  /** So often the cache is not flushed, as while requests run. */
  flushFails = 0;
  /** Whether each object of each answer has a key that nobody knows. */
  isFromTheFuture = false;
  #contents = "as it started";
  /** Calls that are answered by 503 before it is up. */
  startsIn = 0;
  readonly calls: { readonly path: string; readonly body: Body }[] = [];
  aborted: string[] = [];
  #server: Server;

  private constructor(kind: Kind) {
    this.kind = kind;
    this.#server = this.#make();
  }

  static async start(kind: Kind): Promise<ContractServer> {
    const server = new ContractServer(kind);
    await server.#listen(0);
    return server;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  get url(): string {
    return `http://127.0.0.1:${this.port}`;
  }

  /** How often a path was asked for. */
  count(path: string): number {
    return this.calls.filter((call) => call.path === path).length;
  }

  /** Ends it as a kill does. @returns Its port. */
  async kill(): Promise<number> {
    const { port } = this;
    const closed = new Promise((resolve) => this.#server.close(resolve));
    this.#server.closeAllConnections();
    await closed;
    return port;
  }

  /** Another process at the same address, with the weights that it was started with. */
  async restart(port: number): Promise<void> {
    this.version = "default";
    this.#contents = "as it started";
    this.isPaused = false;
    this.#server = this.#make();
    await this.#listen(port);
  }

  #make(): Server {
    return createServer((request, response) => {
      void this.#answer(request, response).catch(() => response.destroy());
    });
  }

  async #listen(port: number): Promise<void> {
    await new Promise<void>((resolve, reject) => {
      this.#server.once("error", reject).listen(port, "127.0.0.1", resolve);
    });
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const [path = ""] = (request.url ?? "").split("?");
    const text = Buffer.concat(chunks).toString("utf8");
    const body = (text === "" ? {} : JSON.parse(text)) as Body;
    this.calls.push({ path, body });
    if (this.startsIn > 0) {
      this.startsIn -= 1;
      return json(response, 503, { error: { message: "Loading model" } });
    }
    const status = this.broken.get(path);
    if (status !== undefined) return json(response, status, { error: { message: "broken" } });
    if (path === "/flush_cache" && this.flushFails > 0) {
      this.flushFails -= 1;
      return text400(response, "Flush cache failed. #queue-req: 0, #running-req: 2");
    }
    await this.#load(path, body);
    if (path === (this.kind === "sglang" ? "/generate" : "/v1/completions")) return this.#tokens(body, response);
    const table = this.#about(path, body);
    json(response, table ? 200 : 404, this.#said(table ?? { detail: "Not Found" }));
  }

  /** Takes the bytes where a route names a folder of them. */
  async #load(path: string, { model_path, kwargs }: Body): Promise<void> {
    if (!["/update_weights_from_disk", "/collective_rpc", "/reload"].includes(path)) return;
    if (this.loads === "nothing" || this.refusal !== "") return;
    const folder = model_path ?? (kwargs as Body).weights_path;
    const bytes = await readFile(`${folder}/model.safetensors`);
    this.#contents = `${this.loads}: ${createHash("sha256").update(bytes).digest("hex")}`;
  }

  #said(table: Body): Body {
    return this.isFromTheFuture ? (withMore(table) as Body) : table;
  }

  #about(path: string, body: Body): Body | null {
    const { kind } = this;
    const name = kind === "openai" && this.isTelling ? this.version : "served";
    if (path === "/v1/models" && kind !== "sglang") return { object: "list", data: [{ id: name, owned_by: "tests" }] };
    if (path === "/health" && kind !== "openai") return {};
    const own = { openai: this.#openai, sglang: this.#sglang, vllm: this.#vllm }[kind];
    return own.call(this, path, body);
  }

  #openai(path: string, body: Body): Body | null {
    if (path !== "/reload") return null;
    this.version = String(body.weight_version);
    return { ok: true };
  }

  #sglang(path: string, body: Body): Body | null {
    switch (path) {
      case "/model_info":
        return { model_path: "served", ...(this.isTelling ? { weight_version: this.version } : {}) };
      case "/server_info":
        return { version: "0.5.21", tp_size: 1, enable_deterministic_inference: false };
      case "/health_generate":
      case "/flush_cache":
        return {};
      case "/pause_generation":
      case "/continue_generation":
        this.isPaused = path === "/pause_generation";
        return { status: "ok" };
      case "/update_weights_from_disk":
        if (!this.isPaused) return { success: false, message: "not paused" };
        if (this.refusal !== "") return { success: false, message: this.refusal };
        this.version = String(body.weight_version);
        return { success: true, message: "Succeeded" };
      case "/weights_checker":
        return this.isHashing ? this.#ranks() : null;
      case "/abort_request":
        this.aborted.push(String(body.rid));
        return {};
      default:
        return null;
    }
  }

  /** Two ranks, in either order: they answer when they are done. */
  #ranks(): Body {
    const ranks = [0, 1].map((tp_rank) => ({
      checksums: { "model.norm.weight": this.#hash("norm"), "lm_head.weight": this.#hash(`head ${tp_rank}`) },
      per_gpu_checksum: this.#hash(String(tp_rank)),
      parallelism_info: { tp_rank, tp_size: 2 },
    }));
    const said = this.count("/weights_checker") % 2 === 0 ? ranks : ranks.reverse();
    return { success: true, message: "", ranks: said, per_engine_checksum: this.#hash(JSON.stringify(said)) };
  }

  #hash(of: string): string {
    return createHash("sha256").update(`${of} ${this.#contents}`).digest("hex");
  }

  #vllm(path: string, body: Body): Body | null {
    switch (path) {
      case "/weight_info":
        return this.isTelling ? { weight_version: this.version } : null;
      case "/version":
        return { version: "0.32.0" };
      case "/pause":
      case "/resume":
        this.isPaused = path === "/pause";
        return { status: "ok" };
      case "/collective_rpc":
        return this.refusal === "" ? { results: [null] } : { error: { message: this.refusal } };
      case "/weight_checker":
        return this.isHashing ? { checksums: { "dp0:pp0:pcp0:tp0:model.norm.weight": this.#hash("norm") } } : null;
      case "/reset_prefix_cache":
        return {};
      case "/update_weight_version":
        if (!this.isTelling || !this.isPaused) return null;
        this.version = String(body.new_version);
        return { ok: true };
      default:
        return null;
    }
  }

  #tokens(body: Body, response: ServerResponse): void {
    const fault = this.always ?? this.faults.shift() ?? null;
    if (fault === "hangs") return;
    if (fault === "500") return void json(response, 500, { error: { message: "CUDA error" } });
    if (fault === "503") return void json(response, 503, { error: { message: "queue is full" } });
    if (fault === "error in a 200") return void json(response, 200, { error: { message: "out of memory" } });
    if (fault === "garbage") return void response.writeHead(200).end("<html>");
    if (fault === "hangs in its answer" || fault === "dies in its answer") {
      response.writeHead(200, { "content-type": "application/json" });
      response.write('{"choices": [', () => {
        if (fault === "dies in its answer") response.socket?.destroy();
      });
      return;
    }
    if (fault === "endless answer") {
      response.on("error", () => {});
      const more = (): void => {
        while (!response.destroyed && response.write(`"${"x".repeat(2 ** 16)}"`));
        if (!response.destroyed) response.once("drain", more);
      };
      more();
      return;
    }
    json(
      response,
      200,
      this.#said(this.kind === "sglang" ? this.#generated(body, fault) : this.#completed(body, fault)),
    );
  }

  #generated({ input_ids: prompt, sampling_params }: Body, fault: Fault | null): Body {
    const { sampling_seed: seed, max_new_tokens: most } = sampling_params as Record<string, number>;
    const drawn = drawnOf(prompt as number[], { seed, most }, fault);
    const pairs = drawn.ids.map((id, at) => [drawn.logprobs[at], id, null]);
    const meta = {
      finish_reason: { type: drawn.finish },
      ...(fault === "no logprobs" ? {} : { output_token_logprobs: pairs }),
      ...(this.isTelling ? { weight_version: this.version } : {}),
    };
    return { text: "", output_ids: drawn.ids, meta_info: meta };
  }

  #completed({ prompt, seed, max_tokens: most, model: asked }: Body, fault: Fault | null): Body {
    const { ids, logprobs, finish } = drawnOf(
      prompt as number[],
      { seed: seed as number, most: most as number },
      fault,
    );
    const isLlama = this.kind === "openai";
    const content = ids.map((id, at) => ({ id, token: "", logprob: logprobs[at] }));
    const told = isLlama ? { content } : { tokens: ids.map(() => ""), token_logprobs: logprobs };
    const choice = { index: 0, text: "", finish_reason: finish, ...(isLlama ? {} : { token_ids: ids }) };
    const own = isLlama && this.isTelling ? this.version : "served";
    const model = this.isEchoing ? asked : own;
    return { id: "c", model, choices: [{ ...choice, ...(fault === "no logprobs" ? {} : { logprobs: told }) }] };
  }
}

/** Tokens that follow from the prompt and the seed; the last one is 0, which ends a response. */
function drawnOf(
  prompt: readonly number[],
  { seed = 0, most = 1 }: { seed?: number | undefined; most?: number | undefined },
  fault: Fault | null,
) {
  const length = 1 + ((seed + prompt.length) % most);
  const ids = Array.from({ length }, (_, at) => 1 + ((seed + 7 * at + prompt.length) % 40));
  const isWhole = length < most;
  if (isWhole) ids[length - 1] = 0;
  if (fault === "wild token") ids[0] = 4_000_000;
  if (fault === "another end") ids[length - 1] = 5;
  const finish = fault === "aborts" ? "abort" : fault === "another end" || isWhole ? "stop" : "length";
  return { ids, logprobs: ids.map(() => -0.5), finish };
}

/** A value with an unknown key in each of its objects, but for tables of checksums, whose keys are names. */
function withMore(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withMore);
  if (typeof value !== "object" || value === null) return value;
  const known = Object.entries(value).map(([key, of]) => [key, key === "checksums" ? of : withMore(of)]);
  return { ...Object.fromEntries(known), from_the_future: { error: "none", success: false, weight_version: "x" } };
}

const text400 = (response: ServerResponse, text: string): void => void response.writeHead(400).end(text);

function json(response: ServerResponse, status: number, value: unknown): void {
  response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(value));
}

/**
 * Inference servers written from the published routes of SGLang, vLLM and OpenAI's interface, which misbehave when asked to. Weights are a name: what is
 * loaded decides the version that answers carry. Unknown keys of requests are ignored, as SGLang does.
 */
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
    if (path === (this.kind === "sglang" ? "/generate" : "/v1/completions")) return this.#tokens(body, response);
    const table = this.#about(path, body);
    json(response, table ? 200 : 404, table ?? { detail: "Not Found" });
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
        this.version = String(body.weight_version);
        return { success: true, message: "Succeeded" };
      case "/abort_request":
        this.aborted.push(String(body.rid));
        return {};
      default:
        return null;
    }
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
        return { results: [null] };
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
    json(response, 200, this.kind === "sglang" ? this.#generated(body, fault) : this.#completed(body, fault));
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

function json(response: ServerResponse, status: number, value: unknown): void {
  response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(value));
}

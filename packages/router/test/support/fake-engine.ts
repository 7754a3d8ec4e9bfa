/**
 * Engines that are fast and misbehave when asked to, written from the published routes: SGLang (`/generate`, `/health_generate`, `/model_info`), vLLM
 * (`/health`, `/weight_info`) and a plain OpenAI server (`/v1/models` and nothing about weights).
 */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

export type Kind = "sglang" | "vllm" | "openai";

export type Mode =
  | "ok"
  | "hang"
  | "500"
  | "503"
  | "400"
  | "error body"
  | "garbage"
  | "dies before its answer"
  | "dies in its answer"
  | "dies in the stream"
  | "hangs in the stream"
  | "error in the stream"
  | "empty stream"
  | "endless answer";

export interface FakeOptions {
  readonly kind?: Kind;
  readonly version?: string;
  readonly port?: number;
  /** Says of itself that it goes on from prompt and tokens so far. */
  readonly resumes?: boolean;
  readonly incarnation?: string;
  /** Tokens before it dies or hangs in a stream. */
  readonly after?: number;
  /** Events hold only what is new, as with `--incremental-streaming-output`. */
  readonly incremental?: boolean;
  /** For each answer. */
  readonly latencyMs?: number;
}

/** The token that follows: a function of all tokens before, so that a continued response is that of an undisturbed one. */
function nextToken(ids: readonly number[]): number {
  return ids.reduce((sum, id, i) => (sum * 31 + id * (i + 7)) % 997, 3);
}

/** A response of `count` tokens, undisturbed. */
export function responseOf(prompt: readonly number[], count: number): number[] {
  const ids = [...prompt];
  for (let i = 0; i < count; i++) ids.push(nextToken(ids));
  return ids.slice(prompt.length);
}

export const textOfIds = (ids: readonly number[]): string => ids.map((id) => `t${id} `).join("");

export class FakeEngine {
  mode: Mode = "ok";
  version: string;
  healthy: "ok" | "500" | "hang" = "ok";
  served = 0;
  /** As an engine that knows `return_token_ids` does. */
  givesTokens = true;
  /** It answers with a stream, whatever it was asked for. */
  streamsAnyway = false;
  /** Other weights under the same version: other chat answers with tokens. */
  salt = 0;
  /** Tokens that its streams of chat answers leave out, as those of some versions of vLLM do behind the mark of a call. */
  swallowed = 0;
  /** How its chat answers with tokens end. */
  finish = "stop";
  /** Calls of tools in its chat answers, in the place of text. */
  calls: readonly object[] = [];
  /** A stream stops behind its first tokens until this is there. */
  goOn: Promise<void> = Promise.resolve();
  /** Bodies of the requests, newest last. */
  readonly requests: { path: string; body: Record<string, unknown>; headers: IncomingMessage["headers"] }[] = [];
  readonly #options: FakeOptions;
  readonly #server: Server;

  private constructor(options: FakeOptions) {
    this.#options = options;
    this.version = options.version ?? "default";
    this.#server = createServer((request, response) => {
      void this.#answer(request, response).catch(() => response.destroy());
    });
  }

  static async start(options: FakeOptions = {}): Promise<FakeEngine> {
    const engine = new FakeEngine(options);
    await new Promise<void>((resolve, reject) => {
      engine.#server.once("error", reject);
      engine.#server.listen(options.port ?? 0, "127.0.0.1", resolve);
    });
    return engine;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  get url(): string {
    return `http://127.0.0.1:${this.port}`;
  }

  /** Ends at once, as a killed process does. */
  async kill(): Promise<void> {
    const closed = new Promise<void>((resolve) => this.#server.close(() => resolve()));
    this.#server.closeAllConnections();
    await closed;
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<unknown> {
    const path = request.url ?? "";
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    if (request.method === "GET") return this.#get(path, response);
    const body = JSON.parse(Buffer.concat(chunks).toString("utf8")) as Record<string, unknown>;
    this.requests.push({ path, body, headers: request.headers });
    if (this.#options.latencyMs) await new Promise((resolve) => setTimeout(resolve, this.#options.latencyMs));
    return this.#post(path, body, response);
  }

  #get(path: string, response: ServerResponse): unknown {
    const { kind = "sglang", resumes, incarnation } = this.#options;
    const health = { sglang: "/health_generate", vllm: "/health", openai: "/v1/models" }[kind];
    if (path === "/v1/models") return json(response, 200, { object: "list", data: [{ id: "fake" }] });
    if (path === health) {
      if (this.healthy === "hang") return null;
      return void response.writeHead(this.healthy === "ok" ? 200 : 503).end();
    }
    const about = { weight_version: this.version, model_path: "fake", ...(incarnation ? { incarnation } : {}) };
    if (kind === "sglang" && path === "/model_info") return json(response, 200, { ...about, resumes });
    if (kind === "vllm" && path === "/weight_info") return json(response, 200, { weight_version: this.version });
    return json(response, 404, { detail: "Not Found" });
  }

  #post(path: string, body: Record<string, unknown>, response: ServerResponse): unknown {
    if (this.mode === "hang") return null;
    if (this.mode === "500") return json(response, 500, { error: { message: "CUDA error" } });
    if (this.mode === "503") return json(response, 503, { error: { message: "busy" } });
    if (this.mode === "400") return json(response, 400, { error: { message: "top_p is wrong" } });
    if (this.mode === "error body") return json(response, 200, { error: { message: "out of memory" } });
    if (this.mode === "garbage") return void response.writeHead(200).end("<html>");
    if (this.mode === "dies before its answer") return void response.socket?.destroy();
    if (this.mode === "dies in its answer") {
      response.writeHead(200, { "content-type": "application/json", "content-length": "1000" });
      return response.write('{"text": "half', () => response.socket?.destroy());
    }
    if (this.mode === "endless answer") {
      response.writeHead(200, { "content-type": "application/json" });
      const more = setInterval(() => response.write("x".repeat(2 ** 14)), 1);
      return void response.once("close", () => clearInterval(more));
    }
    this.served++;
    return path === "/generate" ? this.#generate(body, response) : this.#openAi(path, body, response);
  }

  #generate(body: Record<string, unknown>, response: ServerResponse): unknown {
    const prompt = (body.input_ids as number[] | undefined) ?? [1, 2, 3];
    const { max_new_tokens: most = 8 } = (body.sampling_params ?? {}) as { max_new_tokens?: number };
    const ids = responseOf(prompt, most);
    const eventAt = (count: number) => {
      const from = this.#options.incremental ? count - 1 : 0;
      const shown = ids.slice(from, count);
      const logprobs = shown.map((id) => [-0.5, id, null]);
      return {
        text: textOfIds(shown),
        output_ids: shown,
        meta_info: {
          id: "x",
          finish_reason: count === most ? { type: "length", length: most } : null,
          prompt_tokens: prompt.length,
          completion_tokens: count,
          weight_version: this.version,
          ...(body.return_logprob ? { output_token_logprobs: logprobs } : {}),
        },
      };
    };
    if (body.stream !== true) {
      const whole = { ...eventAt(most), text: textOfIds(ids), output_ids: ids };
      return json(response, 200, whole);
    }
    return this.#stream(response, most, (count) => eventAt(count));
  }

  #openAi(path: string, body: Record<string, unknown>, response: ServerResponse): unknown {
    const isChat = path.includes("chat");
    const { kind = "sglang" } = this.#options;
    const metadata = kind === "sglang" ? { metadata: { weight_version: this.version } } : {};
    const choice = isChat ? { message: { role: "assistant", content: "hello" } } : { text: "hello" };
    if (body.return_token_ids === true && this.givesTokens && !this.streamsAnyway) {
      const whole = { ...chatWithTokens(body, this), ...metadata };
      if (body.stream !== true) return json(response, 200, whole);
      const chunks = chunksOf(whole).filter((_, i) => i === 0 || i > this.swallowed);
      return this.#stream(response, chunks.length, (count) => chunks[count - 1] as object);
    }
    if (body.stream !== true && !this.streamsAnyway)
      return json(response, 200, { id: "c", choices: [{ index: 0, ...choice }], ...metadata });
    return this.#stream(response, 5, (count) => ({
      id: "c",
      choices: [
        {
          ...{ index: 0, ...(isChat ? { delta: { content: `${count}` } } : { text: `${count}` }) },
          finish_reason: count === 5 ? "stop" : null,
        },
      ],
      ...(count === 5 ? metadata : {}),
    }));
  }

  async #stream(response: ServerResponse, most: number, eventAt: (count: number) => object): Promise<void> {
    response.writeHead(200, { "content-type": "text/event-stream" });
    const { mode } = this;
    const { after = 3 } = this.#options;
    if (mode === "empty stream") return void response.end();
    for (let count = 1; count <= most; count++) {
      const isCut = count > after;
      if (count === after + 1) await this.goOn;
      if (isCut && mode === "hangs in the stream") return;
      if (isCut && mode === "dies in the stream") {
        response.write("data: {", () => response.socket?.destroy());
        return;
      }
      if (isCut && mode === "error in the stream") {
        response.write(`data: ${JSON.stringify({ error: { message: "scheduler died" } })}\n\n`);
        return void response.end();
      }
      response.write(`data: ${JSON.stringify(eventAt(count))}\n\n`);
    }
    response.end("data: [DONE]\n\n");
  }
}

interface TokenAnswer {
  readonly prompt_token_ids: readonly number[];
  readonly usage: object;
  readonly choices: readonly [
    {
      readonly index: number;
      readonly message: { readonly content?: string | null; readonly tool_calls?: readonly object[] };
      readonly logprobs: { readonly content: readonly object[] };
      readonly token_ids: readonly number[];
      readonly finish_reason: string;
    },
  ];
}

/** The answer as vLLM streams it: a token with each event, then the calls in two halves, then how it ended, then what it took. */
function chunksOf({ choices: [choice], usage, prompt_token_ids: ids, ...head }: TokenAnswer): readonly object[] {
  const { message, logprobs, token_ids: tokens, finish_reason } = choice;
  const chunk = (delta: object, more: object = {}) => ({
    ...{ ...head, object: "chat.completion.chunk" },
    choices: [{ index: 0, delta, logprobs: null, finish_reason: null, ...more }],
  });
  const texts = tokens.map((token, i) =>
    chunk(typeof message.content === "string" ? { content: message.content[i] } : {}, {
      ...{ token_ids: [token], logprobs: { content: [logprobs.content[i]] } },
    }),
  );
  const calls = (message.tool_calls ?? []).flatMap((call, index) => {
    const { function: called, ...fields } = call as { function: { name: string; arguments: string } };
    const { name, arguments: args } = called;
    return [
      chunk({ tool_calls: [{ index, ...fields, function: { name, arguments: args.slice(0, 4) } }] }),
      chunk({ tool_calls: [{ index, function: { arguments: args.slice(4) } }] }),
    ];
  });
  return [
    { ...chunk({ role: "assistant", content: "" }), prompt_token_ids: ids },
    ...[...texts, ...calls, chunk({}, { finish_reason, stop_reason: null })],
    { ...head, object: "chat.completion.chunk", choices: [], usage },
  ];
}

/** A chat answer with token ids, whose tokens are characters: the conversation that goes on begins with the tokens of the one before. */
function chatWithTokens(
  body: Record<string, unknown>,
  { finish, calls, salt }: Pick<FakeEngine, "finish" | "calls" | "salt">,
): TokenAnswer {
  const prompt = (body.messages as { content: string }[]).map(({ content }) => content).join("");
  const promptIds = Array.from(prompt, (character) => character.charCodeAt(0));
  const ids = responseOf([...promptIds, Number(body.seed) + salt], 4).map((id) => 97 + (id % 26));
  const content = ids.map((id) => ({ token: String.fromCharCode(id), logprob: -id / 100, top_logprobs: [] }));
  const text = String.fromCharCode(...ids);
  const message = {
    role: "assistant",
    ...(calls.length > 0 ? { content: null, tool_calls: calls } : { content: text }),
  };
  return {
    ...{ id: "c", object: "chat.completion", created: 1, model: "fake", prompt_token_ids: promptIds },
    usage: { prompt_tokens: promptIds.length, completion_tokens: 4, total_tokens: promptIds.length + 4 },
    choices: [{ index: 0, message, logprobs: { content }, token_ids: ids, finish_reason: finish }],
  };
}

function json(response: ServerResponse, status: number, value: unknown): void {
  response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(value));
}

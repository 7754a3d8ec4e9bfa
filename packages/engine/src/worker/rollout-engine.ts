/** A sampler that is a worker. It answers one request after the other, so weights never change under a response. */
import type { z } from "@muster/protocol";
import { checkRequest } from "../check-request.ts";
import type { EngineInfo, Generated, GenerateRequest, HealthState, RolloutEngine, WeightUpdate } from "../engine.ts";
import { errors } from "../errors.ts";
import { joined } from "./joined.ts";
import { generatedSchema } from "./messages.ts";
import type { OpenWorker } from "./open-link.ts";

/** Most bytes of weights that are held here on their way to the worker. */
const pieceMax = 64 * 2 ** 20;

const finishes = ["stop", "length", "abort"] as const;

/** A rollout engine over an open worker, which it ends when it is closed. */
export class WorkerRolloutEngine implements RolloutEngine {
  readonly #worker: OpenWorker;
  readonly #info: EngineInfo;
  readonly #inFlight = new Set<string>();
  #version: number | null = null;
  #turn: Promise<unknown> = Promise.resolve();
  #isLost = false;
  #held: { readonly promise: Promise<void>; readonly open: () => void } | null = null;

  constructor(worker: OpenWorker) {
    const { build, modelId, vocab, maxContext, logprobs, fingerprint } = worker.description;
    this.#worker = worker;
    this.#info = { kind: "worker", build, modelId, vocab, maxContext, ranks: 1, logprobs, fingerprint };
    void worker.link.lost.then(() => {
      this.#isLost = true;
    });
  }

  info(): EngineInfo {
    return this.#info;
  }

  async health({ deep, signal }: Parameters<RolloutEngine["health"]>[0]): ReturnType<RolloutEngine["health"]> {
    const told = (ok: boolean, state: HealthState) => ({ ok, state });
    if (this.#isLost) return told(false, "stopping");
    if (this.#version === null) return told(false, "starting");
    // One that draws now would answer after that only; whether it hangs, its pings and the deadline of its call say.
    if (!deep || this.#inFlight.size > 0) return told(true, "up");
    const sampling = { temperature: 1, maxNewTokens: 1, stopTokenIds: [] };
    const request = { requestId: "health", promptIds: Int32Array.of(0), n: 1, sampling, seed: 0 };
    try {
      await this.generate([request], signal);
      return told(true, "up");
    } catch (error) {
      return { ...told(false, "unhealthy"), detail: error instanceof Error ? error.message : String(error) };
    }
  }

  async generate(
    requests: readonly GenerateRequest[],
    signal: AbortSignal,
  ): Promise<readonly (readonly Generated[])[]> {
    for (const request of requests) {
      const { begun } = request;
      const require = checkRequest(this.#info, request);
      require(begun === undefined, "begun responses", begun?.length ?? 0, "absent: a worker does not resume");
    }
    signal.throwIfAborted();
    while (this.#held) await untilAborted(this.#held.promise, signal);
    for (const { requestId } of requests) this.#inFlight.add(requestId);
    try {
      return await this.#inTurn(() => this.#generate(requests, signal));
    } finally {
      for (const { requestId } of requests) this.#inFlight.delete(requestId);
    }
  }

  async updateWeights(update: WeightUpdate): Promise<void> {
    const { weightsBytes: expectedBytes } = this.#worker.description;
    const { version } = update;
    if (update.via !== "inline")
      throw errors.EngineOptionInvalid({ field: "via", value: update.via, rule: "inline for a worker" });
    if (update.bytes !== expectedBytes)
      throw errors.EngineStateLength({ section: "weights", bytes: update.bytes, expectedBytes });
    await this.#inTurn(async () => {
      if (version === this.#version) return;
      const memory = new Uint8Array(Math.min(pieceMax, expectedBytes));
      for (let from = 0; from < expectedBytes; from += pieceMax) {
        const piece = memory.subarray(0, Math.min(pieceMax, expectedBytes - from));
        await update.copyTo(piece, from);
        await this.#worker.regions.write("weights", piece, from);
      }
      try {
        await this.#worker.link.call("updateWeights", { version });
        this.#version = version;
      } catch (error) {
        this.#version = null; // what it has now, nobody knows
        throw error;
      }
    });
  }

  weightVersion(): number | null {
    return this.#version;
  }

  async abort(requestIds: readonly string[] | "all"): Promise<void> {
    const meant = requestIds === "all" ? [...this.#inFlight] : requestIds.filter((id) => this.#inFlight.has(id));
    if (meant.length > 0) this.#worker.link.tell({ type: "abort", requestIds: meant });
  }

  async pause(mode: "abort" | "drain" | "keep"): Promise<void> {
    if (!this.#held) {
      let open: () => void = () => {};
      const promise = new Promise<void>((resolve) => {
        open = resolve;
      });
      this.#held = { promise, open };
    }
    if (mode === "abort") await this.abort("all");
    if (mode !== "keep") await this.#turn;
  }

  async resume(): Promise<void> {
    this.#held?.open();
    this.#held = null;
  }

  onLost(run: (cause: Error) => void): void {
    void this.#worker.link.lost.then(run);
  }

  async close(): Promise<void> {
    await this.resume();
    await this.#worker.link.close();
    await this.#worker.regions.close();
  }

  async #generate(
    requests: readonly GenerateRequest[],
    signal: AbortSignal,
  ): Promise<readonly (readonly Generated[])[]> {
    signal.throwIfAborted();
    if (this.#version === null) throw errors.EngineNotReady({ operation: "generate", missing: "updateWeights()" });
    const { link, regions } = this.#worker;
    const prompts = joined(
      requests.map(({ promptIds }) => promptIds),
      Int32Array,
    );
    const asked = requests.map(({ requestId, promptIds, n, from = 0, seed, sampling }) => ({
      ...{ id: requestId, promptLength: promptIds.length, n, from, seed, ...sampling },
    }));
    const arrays = await regions.writeArrays("inputs", { prompts });
    const answer = await link.ask("generate", { requests: asked, arrays }, generatedSchema, { signal });
    return await this.#responsesIn(answer, requests);
  }

  /** Every count and place of an answer is checked against what was asked. */
  async #responsesIn(
    { version, arrays }: z.infer<typeof generatedSchema>,
    requests: readonly GenerateRequest[],
  ): Promise<readonly (readonly Generated[])[]> {
    const { link, regions } = this.#worker;
    if (version !== this.#version)
      throw link.condemn(`it generated with version ${version}, and was given ${this.#version}`);
    const total = requests.reduce((sum, { n }) => sum + n, 0);
    try {
      const lengths = await regions.readArray("outputs", arrays.lengths, {
        dtype: "i32",
        what: "lengths",
        length: total,
      });
      const ends = await regions.readArray("outputs", arrays.finishes, {
        dtype: "u8",
        what: "finishes",
        length: total,
      });
      const sum = lengths.reduce((all, length) => all + Math.max(0, length), 0);
      const tokens = await regions.readArray("outputs", arrays.tokens, { dtype: "i32", what: "tokens", length: sum });
      const logprobs = await regions.readArray("outputs", arrays.logprobs, {
        dtype: "f32",
        what: "logprobs",
        length: sum,
      });
      let row = 0;
      let at = 0;
      return requests.map((request) =>
        Array.from({ length: request.n }, (): Generated => {
          const [length, finish] = [lengths[row]!, finishes[ends[row]!]];
          const responseIds = tokens.slice(at, at + length);
          const fault = faultOfResponse(this.#info, request, { length, finish, responseIds });
          if (fault) throw errors.WorkerProtocol({ reason: `response ${row} of its answer to generate ${fault}` });
          const generated = { responseIds, logprobs: logprobs.slice(at, at + length), finish: finish! };
          row += 1;
          at += length;
          return { ...generated, versionAtStart: version, versionAtEnd: version };
        }),
      );
    } catch (cause) {
      throw link.condemn(cause instanceof Error ? cause.message : String(cause));
    }
  }

  #inTurn<T>(run: () => Promise<T>): Promise<T> {
    const result = this.#turn.then(run);
    this.#turn = result.catch(() => {}); // the caller hears of it
    return result;
  }
}

function faultOfResponse(
  { vocab, maxContext }: EngineInfo,
  { promptIds, sampling }: GenerateRequest,
  { length, finish, responseIds }: { length: number; finish: string | undefined; responseIds: Int32Array },
): string | null {
  const room = Math.min(sampling.maxNewTokens, maxContext - promptIds.length);
  if (length < 0 || length > room) return `has ${length} tokens, and there is room for ${room}`;
  if (finish === undefined) return "ends with none of stop (0), length (1), abort (2)";
  if (length === 0 && finish !== "abort") return "has no token and was not aborted";
  const wild = responseIds.find((token) => token < 0 || token >= vocab);
  return wild === undefined ? null : `has the token ${wild}, and there are ${vocab}`;
}

async function untilAborted(promise: Promise<void>, signal: AbortSignal): Promise<void> {
  let stop: () => void = () => {};
  const aborted = new Promise<void>((resolve) => {
    stop = resolve;
    signal.addEventListener("abort", stop, { once: true });
  });
  await Promise.race([promise, aborted]);
  signal.removeEventListener("abort", stop);
  signal.throwIfAborted();
}

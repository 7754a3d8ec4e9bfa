/** Draws many responses from several servers, each asked for again elsewhere when its server fails, and none taken whose weights nobody vouches for. */
import { hasCode, messageOf, mixSeed } from "@muster/base";
import type { EngineInfo, Generated, GenerateRequest } from "../engine.ts";
import { errors } from "../errors.ts";
import { generatedOf } from "./check-drawn.ts";
import type { Draw, Drawn } from "./dialect.ts";
import type { ServedOptions } from "./options.ts";
import type { Pool } from "./pool.ts";
import { type Server, sleep } from "./server.ts";

/** What a call draws with. */
export interface DrawTools {
  readonly pool: Pool;
  readonly options: ServedOptions;
  readonly info: EngineInfo;
  readonly version: number;
  readonly tag: string;
  /** Of this call, and no other. */
  readonly id: string;
  /** Ends the whole call. */
  readonly signal: AbortSignal;
  /** Ends one request with finish `abort`. */
  readonly abortOf: (requestId: string) => AbortSignal;
}

/** A response that is wanted. */
interface Piece {
  readonly request: GenerateRequest;
  readonly index: number;
  generated: Generated | null;
  /** Server and its life that the response stands and falls with; `null` when the answer vouches for itself. */
  witness: { readonly server: Server; readonly life: number } | null;
}

const aborted: Omit<Generated, "versionAtStart" | "versionAtEnd"> = {
  responseIds: new Int32Array(0),
  logprobs: new Float32Array(0),
  finish: "abort",
};

/** Bytes of an answer: of each token, and of all else. */
const [tokenBytes, otherBytes] = [2_048, 2 ** 20];

/**
 * Draws all responses.
 *
 * @returns One row per request.
 * @throws The signal's reason; what the servers answered last
 */
export async function drawAll(requests: readonly GenerateRequest[], tools: DrawTools): Promise<readonly Generated[][]> {
  const rows = requests.map((request) =>
    Array.from({ length: request.n }, (_, index): Piece => ({ request, index, generated: null, witness: null })),
  );
  const pieces = rows.flat();
  const { options, pool } = tools;
  for (let round = 0; pieces.some(({ generated }) => generated === null); round++) {
    if (round === options.tries)
      throw errors.ServerNone({ urls: pool.names, reason: "their weights changed in each try while they were used" });
    const waiting = pieces.filter(({ generated }) => generated === null);
    const lanes = Math.min(waiting.length, options.concurrency * pool.size);
    const lane = async (): Promise<void> => {
      for (let piece = waiting.shift(); piece; piece = waiting.shift()) await drawOne(piece, tools);
    };
    await allOrNothing(Array.from({ length: lanes }, lane), waiting);
    await doubt(pieces, tools);
  }
  return rows.map((row) => row.map(({ generated }) => generated as Generated));
}

/** Waits for all lanes, so that nothing runs on behind a failure. */
async function allOrNothing(lanes: readonly Promise<void>[], waiting: unknown[]): Promise<void> {
  for (const lane of lanes)
    lane.catch(() => {
      waiting.length = 0;
    });
  const failed = (await Promise.allSettled(lanes)).find((each) => each.status === "rejected");
  if (failed) throw failed.reason;
}

/** Takes back what was drawn from a server that does not have the weights any more, or was lost meanwhile: it may have been another one already. */
async function doubt(pieces: readonly Piece[], { signal }: DrawTools): Promise<void> {
  const lives = new Map<Server, Map<number, Piece[]>>();
  for (const piece of pieces) {
    if (!piece.witness) continue;
    const { server, life } = piece.witness;
    const byLife = lives.get(server) ?? new Map<number, Piece[]>();
    lives.set(server, byLife.set(life, [...(byLife.get(life) ?? []), piece]));
  }
  for (const [server, byLife] of lives) {
    const isWell = await server.check(signal, true);
    for (const [life, drawn] of byLife)
      for (const piece of drawn) {
        piece.witness = null;
        if (!isWell || life !== server.life) piece.generated = null;
      }
  }
}

async function drawOne(piece: Piece, tools: DrawTools): Promise<void> {
  const { options, pool, signal, version } = tools;
  const stop = tools.abortOf(piece.request.requestId);
  const either = AbortSignal.any([signal, stop]);
  const versions = { versionAtStart: version, versionAtEnd: version };
  for (let attempt = 1; ; attempt++) {
    try {
      const server = await pool.take(either);
      try {
        const drawn = await ask(server, piece, { ...tools, signal: either }, attempt);
        if (drawn.generated.finish !== "abort" || attempt === options.tries) {
          Object.assign(piece, drawn);
          return;
        }
      } finally {
        pool.free(server);
      }
    } catch (error) {
      signal.throwIfAborted();
      if (stop.aborted) {
        piece.generated = { ...aborted, ...versions };
        return;
      }
      if (attempt >= options.tries || !isWorthAnother(error)) throw error;
    }
    await sleep(Math.min(2_000, 20 * 2 ** attempt), either);
  }
}

/** What another server, or the same one later, may answer otherwise. */
const isWorthAnother = (error: unknown): boolean =>
  ["UNREACHABLE", "BUSY", "FAILED", "ANSWER", "STALE"].some((kind) => hasCode(error, `MUSTER_ERR_SERVER_${kind}`));

/** After these nobody knows what the server is. */
const isLoss = (error: unknown): boolean =>
  ["UNREACHABLE", "FAILED", "STALE"].some((kind) => hasCode(error, `MUSTER_ERR_SERVER_${kind}`));

async function ask(
  server: Server,
  { request, index }: Piece,
  tools: DrawTools,
  attempt: number,
): Promise<Pick<Piece, "generated" | "witness"> & { readonly generated: Generated }> {
  const { options, info, version, signal } = tools;
  const { dialect, times } = options;
  const { life } = server;
  const draw = drawOf(request, index, {
    id: `${tools.id}.${request.requestId}.${index}.${attempt}`,
    model: server.model,
  });
  const room = Math.min(request.sampling.maxNewTokens, info.maxContext - request.promptIds.length);
  const call = { timeoutMs: times.callMs, signal, bytesMax: otherBytes + room * tokenBytes };
  try {
    const { path, body } = dialect.request({ ...draw, maxNewTokens: room });
    const { table } = await server.client.call({ path, body, ...call });
    const answer = read(server, path, () => dialect.drawnIn(table ?? {}));
    // A name that the request had is no proof: servers repeat it.
    const isSaid = checkVersions(server, answer, tools) && !answer.versions.includes(draw.model);
    const generated = read(server, path, () => generatedOf(answer, request, { info, version }));
    return { generated, witness: isSaid || server.isOwn ? null : { server, life } };
  } catch (error) {
    // Told to end, it does so also where it does not see that the connection is closed; that it can not be told is no fault of this call.
    if (signal.aborted) dialect.abort?.(server.client, [draw.id]).catch(() => {});
    else if (isLoss(error) && life === server.life) server.lose(error);
    throw error;
  }
}

function drawOf(
  { promptIds, sampling, seed, from = 0 }: GenerateRequest,
  index: number,
  more: Pick<Draw, "id" | "model">,
): Draw {
  // Servers take seeds of 31 bits.
  return { ...more, promptIds, ...sampling, seed: mixSeed(seed, from + index) >>> 1 };
}

function read<T>(server: Server, path: string, run: () => T): T {
  try {
    return run();
  } catch (error) {
    throw errors.ServerAnswer({ url: server.name, path, reason: messageOf(error) }, error);
  }
}

/** @returns True when the answer says that it is of these weights. @throws MUSTER_ERR_SERVER_STALE, MUSTER_ERR_SERVER_UNVERIFIED */
function checkVersions(server: Server, { versions }: Drawn, { tag, options }: DrawTools): boolean {
  const other = versions.find((each) => each !== tag);
  if (other !== undefined) throw errors.ServerStale({ url: server.name, found: other, wanted: tag });
  if (versions.length > 0) return true;
  if (options.dialect.stamps && !options.trusts)
    throw errors.ServerUnverified({ url: server.name, what: "its answers are of", kind: options.kind });
  return false;
}

/** The echo engine with answers as long as they may be: drawn a slice at a time, saved and gone on with by others. The trainer is that of the example. */
import { engine as echo } from "../../../examples/echo-engine/echo.mjs";

const sliceTokens = 2_048;
const pauseMs = 60;

export const engine = (tools) => {
  const adapter = echo(tools);
  return {
    ...adapter,
    openRollout: async (options, env) => sampler(await adapter.openRollout(options, env), env.needs),
  };
};

/** Token at a position: what the echo engine never says there, so that its chance does not depend on the weights. */
const tokenAt = (seed, response, position, vocab) =>
  (Math.imul(seed ^ (response + 1), 2 * position + 1) >>> 8) & (vocab >> 1);

function sampler(short, needs) {
  const running = new Map();
  const shown = (one, length, finish) => ({
    responseIds: one.ids.slice(0, length),
    logprobs: new Float32Array(length),
    finish,
    versionAtStart: one.version,
    versionAtEnd: one.version,
  });
  const draw = async ({ requestId, promptIds, sampling, seed, n, from = 0, begun }, signal) => {
    const length = Math.min(sampling.maxNewTokens, needs.maxContext - promptIds.length);
    const rows = Array.from({ length: n }, (_, at) => {
      const ids = Int32Array.from({ length }, (_, i) => {
        const token = tokenAt(seed, from + at, i, needs.vocab);
        return token === promptIds[i] ? token + 1 : token;
      });
      return { ids, version: short.weightVersion(), drawn: begun?.[at].responseIds.length ?? 0 };
    });
    const request = { rows, isAborted: false };
    running.set(requestId, request);
    while (!request.isAborted && rows.some(({ drawn }) => drawn < length)) {
      await new Promise((resolve) => setTimeout(resolve, pauseMs));
      signal.throwIfAborted();
      for (const row of rows) row.drawn = Math.min(length, row.drawn + sliceTokens);
    }
    running.delete(requestId);
    return rows.map((row) => shown(row, row.drawn, row.drawn === length ? "length" : "abort"));
  };
  return {
    ...short,
    info: () => ({ ...short.info(), resumes: true }),
    generate: (requests, signal) => Promise.all(requests.map((request) => draw(request, signal))),
    drawn: (requestId) => running.get(requestId)?.rows.map((row) => shown(row, row.drawn, "abort")) ?? null,
    abort: async (ids) => {
      for (const [id, request] of running) if (ids === "all" || ids.includes(id)) request.isAborted = true;
    },
  };
}

/**
 * A generate function of a job's own: the model answers, and where the answer has no end it gets a second try that begins anew. The
 * first try stays in the response and is masked out of the loss. Named as `generate = "./modules/second-try.mjs"` under `[rollout]`.
 *
 * @param {{
 *   prompt: { ids: Int32Array },
 *   sampling: { maxNewTokens: number },
 *   engine: {
 *     info(): { maxContext: number },
 *     generate(turn: { promptIds: ArrayLike<number>, sampling?: { maxNewTokens: number } }): Promise<{
 *       responseIds: Int32Array, logprobs: Float32Array, finish: string
 *     }>
 *   }
 * }} context
 */
export async function generate({ prompt, sampling, engine }) {
  const first = await engine.generate({ promptIds: prompt.ids });
  const room = engine.info().maxContext - 2 * prompt.ids.length - first.responseIds.length;
  if (first.finish === "stop" || room < 1) return answerOf(first);
  // The question once more: its tokens are nobody's answer, so they are masked too.
  const said = [...first.responseIds, ...prompt.ids];
  const maxNewTokens = Math.min(sampling.maxNewTokens, room);
  const second = await engine.generate({ promptIds: [...prompt.ids, ...said], sampling: { maxNewTokens } });
  return {
    responseIds: [...said, ...second.responseIds],
    logprobs: [...said.map(() => 0), ...second.logprobs],
    lossMask: [...said.map(() => 0), ...Array.from(second.responseIds, () => 1)],
    finish: second.finish,
  };
}

/** @param {{ responseIds: Int32Array, logprobs: Float32Array, finish: string }} generated */
function answerOf({ responseIds, logprobs, finish }) {
  return { responseIds, logprobs, finish };
}

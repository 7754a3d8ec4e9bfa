/**
 * A reward of a job's own: the share of the answer that is right, from its start. Named in a job file as
 * `reward = "./modules/partial-credit.mjs"` under `[task]`.
 *
 * @param {{ prompt: { answer: string }, responseText: string, finish: string }} input
 * @returns {number} 0 to 1; 1 only for the whole answer, ended by the model itself.
 */
export function reward({ prompt, responseText, finish }) {
  const wanted = `${prompt.answer}$`;
  if (finish === "stop" && responseText === wanted) return 1;
  let right = 0;
  while (right < prompt.answer.length && responseText[right] === wanted[right]) right += 1;
  return (0.5 * right) / wanted.length;
}

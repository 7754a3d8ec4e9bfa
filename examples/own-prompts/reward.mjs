// Half a point for the right word, the other half for ending the answer there. `prompt.row` is the row of train.jsonl, with all its columns.
export function reward({ prompt, responseText, finish }) {
  const [first = "", ...rest] = responseText.trim().split(/\s+/);
  if (first !== prompt.row.answer) return 0;
  return finish === "stop" && rest.length === 0 ? 1 : 0.5;
}

/** Jobs of the example engine of several processes, with a reward that grows with the length of a response. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const engine = fileURLToPath(new URL("../../../examples/ranks-engine/echo-ranks.mjs", import.meta.url));

/** Arguments that set them, and these besides. Writes the reward into the folder of the runs. */
export function ranksJob(folder: string, ...more: readonly string[]): readonly string[] {
  const reward = join(folder, "longer.mjs");
  writeFileSync(reward, "export default ({ responseIds }) => responseIds.length / 16;");
  const own = [`engine.kind=${engine}`, "weights.source=seed", `task.reward=${reward}`, "evaluation.every_steps=0"];
  return [...own, ...more].flatMap((one) => ["--set", one]);
}

/** How the simulated model lies over the processes of a trainer. */
import type { RankCut } from "@muster/engine";
import type { JobConfig } from "@muster/protocol";
import { shapeOf } from "../engine/info.ts";

/** Projections back to the hidden size: each process has some of their columns. */
const byColumns = /(o_proj|down_proj)\.weight$/;

const known = new WeakMap<JobConfig, RankCut>();

/** Processes of each trainer. Pure. */
export const trainerSizeOf = ({ processes }: Pick<JobConfig, "processes">): number => processes?.policy ?? 1;

/** `null` where a trainer is one process. The same for the same job: the ways that bytes take are planned once for each. */
export function trainerCutOf(config: JobConfig): RankCut | null {
  const tp = trainerSizeOf(config);
  if (tp === 1) return null;
  const cut = known.get(config) ?? { tp, pp: 1, tensors: shapeOf(config.model).tensors.map(placed) };
  known.set(config, cut);
  return cut;
}

/** Matrices by rows or columns; vectors are on all ranks. */
function placed({ name, shape }: ReturnType<typeof shapeOf>["tensors"][number]): RankCut["tensors"][number] {
  const dimension = byColumns.test(name) ? 1 : 0;
  return { name, shape, elementBytes: 4, partition: shape.length === 1 ? null : dimension, layer: "first" };
}

import type { RankCut } from "@muster/engine";

/** Three tensors: one that is cut by rows, one that is cut by columns, one that every rank has. */
export const cutOver = (tp: number, pp = 1): RankCut => ({
  ...{ tp, pp },
  tensors: [
    { name: "rows", shape: [10, 4], elementBytes: 4, partition: 0, layer: 0 },
    { name: "columns", shape: [6, 8], elementBytes: 2, partition: 1, layer: 1 },
    { name: "norm", shape: [5], elementBytes: 4, partition: null, layer: "last" },
  ],
});

/** The same model, cut along the other dimension of its matrices. */
export const cutAlongColumns = (tp: number): RankCut => ({
  ...{ tp, pp: 1 },
  tensors: cutOver(tp).tensors.map(({ partition, ...tensor }) => {
    return { ...tensor, partition: partition === null ? null : 1 - partition };
  }),
});

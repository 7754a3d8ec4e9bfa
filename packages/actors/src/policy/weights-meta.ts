import { clipText } from "@muster/base";
import { type Body, tensorNameMax, tensorsMax } from "@muster/protocol";

type Row = Body<"weights.meta">["tensors"][number];
type Tensor = Omit<Row, "shape"> & { readonly shape: readonly number[] };

/** The tensors of a model as one message describes them, however many there are; names have as many bytes as they may have characters. The digest is of the whole table. Pure. */
export function weightsMeta(
  lineage: number,
  tensors: readonly Tensor[],
  digest: (bytes: Uint8Array) => string,
): Body<"weights.meta"> {
  const rows = tensors.map((tensor): Row => ({ ...tensor, shape: [...tensor.shape] }));
  const leftOut = Math.max(0, rows.length - tensorsMax);
  return {
    lineage,
    tensors: rows
      .slice(0, tensorsMax)
      .map((row) => ({ ...row, name: clipText(row.name, tensorNameMax, tensorNameMax) })),
    ...(leftOut > 0 ? { leftOut } : {}),
    digest: digest(new TextEncoder().encode(JSON.stringify(rows))),
  };
}

/** A table of tensors that comes row by row, or page by page: nothing is believed of it before it is whole. */
import { bytesOf, faultOfSpec, labelOf, type PlacedTensor, type TensorSpec } from "../tensor-spec.ts";

/** Most rows of a table: the names of a mixture of experts with a trillion parameters are about 100,000. */
export const tableRowsMax = 200_000;

/** Collects the rows of a table and checks each as it comes: its name, shape and place; each name once, one tensor behind the other, all countable. */
export class TableCheck {
  readonly #rows: PlacedTensor[] = [];
  readonly #names = new Set<string>();
  #end = 0;

  /** Rows so far. */
  get rows(): number {
    return this.#rows.length;
  }

  /** Bytes that the rows cover so far. */
  get bytes(): number {
    return this.#end;
  }

  /** Takes a row. @returns What is wrong with it, as the end of a sentence; `null` when nothing is. */
  add(row: TensorSpec & { readonly offsetBytes: number }): string | null {
    const { name, dtype, shape, offsetBytes } = row;
    if (this.#rows.length >= tableRowsMax) return `it has more than ${tableRowsMax} rows`;
    const fault = faultOfSpec(row);
    if (fault) return fault;
    if (this.#names.has(name)) return `tensor ${labelOf(name)} stands there twice`;
    if (offsetBytes !== this.#end)
      return `tensor ${labelOf(name)} starts at byte ${offsetBytes}, and the one before it ends at ${this.#end}`;
    const sizeBytes = bytesOf(row);
    if (!Number.isSafeInteger(this.#end + sizeBytes)) return "its bytes are too many to count";
    this.#names.add(name);
    this.#rows.push({ name, dtype, shape, offsetBytes, sizeBytes });
    this.#end += sizeBytes;
    return null;
  }

  /** The whole table, or what is wrong with it: one without bytes is none. */
  finish(): readonly PlacedTensor[] | string {
    return this.#end > 0 ? this.#rows : "it has no bytes";
  }
}

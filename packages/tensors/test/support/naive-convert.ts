/** Conversion by hand: whole tensors as rows of labels, and one function for each kind of rule that moves the rows. */

/** A tensor as its rows; an element is told by the tensor of the source and its place in it. */
export interface Labelled {
  readonly width: number;
  readonly rows: readonly (readonly string[])[];
}

export const labelled = (name: string, rows: number, width: number): Labelled => ({
  width,
  rows: Array.from({ length: rows }, (_, row) => Array.from({ length: width }, (_, i) => `${name}#${row * width + i}`)),
});

/** Group by group, and in each group part by part. */
export function fuseNaively(parts: readonly Labelled[], groups: number): Labelled {
  const rows: (readonly string[])[] = [];
  for (let group = 0; group < groups; group++)
    for (const part of parts) {
      const each = part.rows.length / groups;
      for (let row = 0; row < each; row++) rows.push(part.rows[group * each + row]!);
    }
  return { width: parts[0]!.width, rows };
}

/**
 * Numbers in eight bits with scales: value = code × scale. A scale belongs to a whole tensor, a row, or a block of rows and columns (128 × 128
 * in the checkpoints of DeepSeek, whose `weight_scale_inv` has the form that is made here).
 */
import { dtypes } from "../dtype.ts";
import { errors } from "../errors.ts";
import { elementsIn, type FloatBytes, readBits, writeBits } from "./cast.ts";

/** For how many numbers one scale is. */
export type Scaling =
  | { readonly kind: "tensor" }
  | { readonly kind: "row" }
  | { readonly kind: "block"; readonly rows: number; readonly columns: number };

/** A matrix of numbers in some rows of a tensor, and how its scales lie. */
export interface ScaledShape {
  readonly rows: number;
  readonly columns: number;
  readonly scaling: Scaling;
}

/** Types that are used with scales. */
export type ScaledDType = "f8_e4m3" | "f8_e5m2";

const largest: Readonly<Record<ScaledDType, number>> = { f8_e4m3: 448, f8_e5m2: 57_344 };
/** No scale is smaller: the smallest normal f32, so that a division by it stays a number. */
const smallestScale = 2 ** -126;

/** Rows and columns of the scales; a tensor's one scale is 1 × 1. Pure. */
export function scalesShapeOf({ rows, columns, scaling }: ScaledShape): readonly [number, number] {
  if (scaling.kind === "tensor") return [1, 1];
  if (scaling.kind === "row") return [rows, 1];
  return [Math.ceil(rows / scaling.rows), Math.ceil(columns / scaling.columns)];
}

/**
 * The scales with which the largest finite number of each area becomes the largest of `to`; 1 for an area of zeros. Of some rows of a tensor, that
 * begin at a block, these are the scales of those rows; a tensor's one scale is the largest of those of its parts.
 *
 * @throws MUSTER_ERR_TENSOR_CAST_INVALID when the bytes are not of that shape.
 */
export function scalesOf(from: FloatBytes, shape: ScaledShape, to: ScaledDType): Float32Array {
  const scales = new Float32Array(product(scalesShapeOf(shape)));
  eachRow(from, shape, (row, _, numbers) => {
    for (let column = 0; column < numbers.length; column++) {
      const size = Math.abs(numbers[column]!);
      const area = areaOf(shape, row, column);
      if (size < Number.POSITIVE_INFINITY && size > scales[area]!) scales[area] = size;
    }
  });
  return scales.map((size) => (size === 0 ? 1 : Math.max(size / largest[to], smallestScale)));
}

/**
 * Writes `from` divided by its scales. Finite numbers that are too large become the largest; infinities and NaNs stay what they are, and are NaN in
 * `f8_e4m3`, so that none is hidden.
 *
 * @throws MUSTER_ERR_TENSOR_CAST_INVALID when bytes or scales are not of that shape.
 */
export function quantize(
  from: FloatBytes,
  to: FloatBytes & { readonly dtype: ScaledDType },
  given: ScaledShape & { readonly scales: Float32Array },
): void {
  checkShape(to, given);
  checkScales(given);
  const max = largest[to.dtype];
  eachRow(from, given, (row, bits, numbers) => {
    for (let column = 0; column < numbers.length; column++) {
      const number = numbers[column]!;
      if (!Number.isFinite(number)) continue;
      numbers[column] = Math.min(max, Math.max(-max, number / given.scales[areaOf(given, row, column)]!));
    }
    writeBits(to, row * given.columns, bits);
  });
}

/** Writes the numbers of `from` times their scales. @throws MUSTER_ERR_TENSOR_CAST_INVALID when bytes or scales are not of that shape. */
export function dequantize(
  from: FloatBytes,
  to: FloatBytes,
  given: ScaledShape & { readonly scales: Float32Array },
): void {
  checkShape(to, given);
  checkScales(given);
  eachRow(from, given, (row, bits, numbers) => {
    for (let column = 0; column < numbers.length; column++)
      if (!Number.isNaN(numbers[column]!))
        numbers[column] = numbers[column]! * given.scales[areaOf(given, row, column)]!;
    writeBits(to, row * given.columns, bits);
  });
}

/** Gives each row as bits and as numbers: two views of the same memory. */
function eachRow(
  from: FloatBytes,
  shape: ScaledShape,
  use: (row: number, bits: Uint32Array, numbers: Float32Array) => void,
): void {
  checkShape(from, shape);
  const bits = new Uint32Array(shape.columns);
  const numbers = new Float32Array(bits.buffer);
  for (let row = 0; row < shape.rows; row++) {
    readBits(from, row * shape.columns, bits);
    use(row, bits, numbers);
  }
}

/** Which scale a number has. */
function areaOf(shape: ScaledShape, row: number, column: number): number {
  const { scaling, columns } = shape;
  if (scaling.kind === "tensor") return 0;
  if (scaling.kind === "row") return row;
  return Math.floor(row / scaling.rows) * Math.ceil(columns / scaling.columns) + Math.floor(column / scaling.columns);
}

function checkShape(bytes: FloatBytes, { rows, columns }: ScaledShape): void {
  if (elementsIn(bytes) !== rows * columns)
    refuse(
      `${bytes.bytes.length} bytes of ${bytes.dtype} are not ${rows} × ${columns} elements of ${dtypes[bytes.dtype].bytes} bytes`,
    );
}

function checkScales(given: ScaledShape & { readonly scales: Float32Array }): void {
  const [rows, columns] = scalesShapeOf(given);
  if (given.scales.length !== rows * columns) refuse(`${given.scales.length} scales are not ${rows} × ${columns}`);
  const wrong = given.scales.find((scale) => !(scale > 0 && scale < Number.POSITIVE_INFINITY));
  if (wrong !== undefined) refuse(`a scale is ${wrong}; it must be positive and finite`);
}

const product = ([rows, columns]: readonly [number, number]): number => rows * columns;

function refuse(reason: string): never {
  throw errors.TensorCastInvalid({ reason });
}

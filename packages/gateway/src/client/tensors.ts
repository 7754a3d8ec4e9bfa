/** Tensors as bytes with a type and a shape, and many small ones in one buffer. */

/** Bytes of a tensor in row order. */
export interface Tensor {
  /** Such as `bfloat16`. */
  readonly dtype: string;
  readonly shape: readonly number[];
  readonly data: Uint8Array;
}

/** Tensors by name. */
export type TensorDict = Readonly<Record<string, Tensor>>;

/** Where a tensor lies in a buffer. */
export interface TensorRow {
  readonly name: string;
  readonly dtype: string;
  readonly shape: readonly number[];
  readonly numel: number;
  /** Bytes. */
  readonly offset: number;
}

/** A buffer and the tensors in it. */
export interface FusedBuffer {
  readonly buffer: Uint8Array;
  readonly rows: readonly TensorRow[];
}

const alignment = 64;
const sizes: Readonly<Record<string, number>> = {
  ...{ float64: 8, int64: 8, uint64: 8, float32: 4, int32: 4, uint32: 4, float16: 2, bfloat16: 2 },
  ...{ int16: 2, uint16: 2, int8: 1, uint8: 1, bool: 1, float8_e4m3fn: 1, float8_e5m2: 1 },
};

/** Puts many tensors into one buffer: those of one type stand together, each is aligned, nothing is converted. */
export class TensorFusion {
  /** Bytes. */
  readonly threshold: number;

  constructor(threshold = 2 ** 20) {
    this.threshold = threshold;
  }

  /** True when there are at least two tensors and as many bytes as the threshold. */
  shouldFuse(tensors: TensorDict): boolean {
    const all = Object.values(tensors);
    return all.length > 1 && all.reduce((sum, { data }) => sum + data.byteLength, 0) >= this.threshold;
  }

  /** One buffer, and a row for each tensor in the order given. @throws RangeError for bytes that are not of the shape. */
  fuse(tensors: TensorDict): FusedBuffer {
    const named = Object.entries(tensors);
    const offsets = new Map<string, number>();
    let end = 0;
    const types = [...new Set(named.map(([, { dtype }]) => dtype))];
    for (const [name, tensor] of types.flatMap((type) => named.filter(([, { dtype }]) => dtype === type))) {
      const expected = bytesOfRow({ name, ...tensor });
      if (tensor.data.byteLength !== expected)
        throw new RangeError(`data: ${name} has ${tensor.data.byteLength} bytes, and its shape ${expected}`);
      offsets.set(name, end);
      end += Math.ceil(tensor.data.byteLength / alignment) * alignment;
    }
    const buffer = new Uint8Array(end);
    const rows = named.map(([name, { dtype, shape, data }]) => {
      const offset = offsets.get(name) ?? 0;
      buffer.set(data, offset);
      return { name, dtype, shape, numel: numelOf(shape), offset };
    });
    return { buffer, rows };
  }

  /** The tensors again, as views of the buffer. @throws RangeError when one would lie outside of it. */
  unfuse({ buffer, rows }: FusedBuffer): TensorDict {
    const entries = rows.map(({ name, dtype, shape, offset }): readonly [string, Tensor] => {
      const bytes = bytesOfRow({ name, dtype, shape });
      if (!Number.isSafeInteger(offset) || offset < 0 || !(offset + bytes <= buffer.byteLength))
        throw new RangeError(`offset: ${name} does not lie in the buffer`);
      return [name, { dtype, shape, data: buffer.subarray(offset, offset + bytes) }];
    });
    return Object.fromEntries(entries);
  }

  /** All tensors as buffers: one when they are fused, otherwise one for each. */
  buffersOf(tensors: TensorDict): readonly FusedBuffer[] {
    if (this.shouldFuse(tensors)) return [this.fuse(tensors)];
    return Object.entries(tensors).map(([name, tensor]) => this.fuse({ [name]: tensor }));
  }
}

/** Bytes of a tensor. @throws what `wrong` makes of a type that is unknown, a RangeError by default */
export function bytesOfRow(
  { name, dtype, shape }: Pick<TensorRow, "name" | "dtype" | "shape">,
  wrong: (reason: string) => Error = (reason) => new RangeError(`dtype: ${reason}`),
): number {
  const size = Object.hasOwn(sizes, dtype) ? sizes[dtype] : undefined;
  if (size === undefined) throw wrong(`${dtype} of ${name} is unknown; use one of ${Object.keys(sizes).join(", ")}`);
  return numelOf(shape) * size;
}

const numelOf = (shape: readonly number[]): number => shape.reduce((product, each) => product * each, 1);

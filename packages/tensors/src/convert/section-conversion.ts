/** What turns the weights of one program into those of another, range by range: other names, another order, other floating-point types. */
import { type DType, dtypes } from "../dtype.ts";
import { labelOf, type PlacedTensor } from "../tensor-spec.ts";
import { type Conversion, type ConvertedTensor, convertTable } from "./convert-table.ts";
import { checkTies, type ReadSource, readConverted } from "./read-converted.ts";
import type { Rule } from "./rules.ts";

/** Reads bytes of the weights as they were given, from a place on. */
export type ReadSection = (into: Uint8Array, from: number) => Promise<void>;

/** The first tensor that no conversion makes: what there is of it, and what is wanted. */
export interface TensorMismatch {
  readonly what: string;
  readonly given: string;
  readonly wanted: string;
}

/** A tensor that is made, and where it lies in the section that is made. */
type Made = ConvertedTensor & Pick<PlacedTensor, "offsetBytes" | "sizeBytes">;

/** Types whose numbers become each other's without a scale. */
const plainFloats: ReadonlySet<DType> = new Set(["f32", "bf16", "f16"]);

/** A conversion of whole sections. */
export class SectionConversion {
  /** Size of the section that is made, in bytes. */
  readonly bytes: number;
  /** Tensors whose numbers get another type. */
  readonly casts: number;
  readonly #made: readonly Made[];
  readonly #ties: Conversion["ties"];
  /** Where the tensors lie that are given. */
  readonly #offsets: ReadonlyMap<string, number>;

  /**
   * Finds the conversion of one table into another. Numbers are cast where f32, bf16 or f16 differ. Pure.
   *
   * @param rules - Applied where the names alone do not do.
   * @returns What keeps the tables apart when nothing converts them.
   * @throws MUSTER_ERR_TENSOR_RULE_INVALID for a rule that does not fit the table
   */
  static between(
    given: readonly PlacedTensor[],
    wanted: readonly PlacedTensor[],
    rules: readonly Rule[] = [],
  ): SectionConversion | TensorMismatch {
    const plain = convertTable(given, []);
    const found = matched(plain.tensors, wanted);
    if ("made" in found) return new SectionConversion(given, plain, found.made);
    if (rules.length === 0) return found;
    const ruled = convertTable(given, rules);
    const made = matched(ruled.tensors, wanted);
    return "made" in made ? new SectionConversion(given, ruled, made.made) : made;
  }

  private constructor(given: readonly PlacedTensor[], { ties }: Conversion, made: readonly Made[]) {
    this.#offsets = new Map(given.map(({ name, offsetBytes }) => [name, offsetBytes]));
    this.#made = made;
    this.#ties = ties;
    this.bytes = made.reduce((end, { offsetBytes, sizeBytes }) => Math.max(end, offsetBytes + sizeBytes), 0);
    this.casts = made.filter(({ casts }) => casts.length > 1).length;
  }

  /** Compares what rules leave out with what it is said to be equal to. @throws MUSTER_ERR_TENSOR_RULE_INVALID naming a tensor that has other bytes */
  async check(read: ReadSection): Promise<void> {
    await checkTies(this.#source(read), { tensors: [], ties: this.#ties });
  }

  /**
   * Fills memory with bytes of the section that is made, from `from` on.
   *
   * @throws the errors of `read`
   */
  async copy(read: ReadSection, into: Uint8Array, from = 0): Promise<void> {
    const source = this.#source(read);
    const end = from + into.length;
    for (let i = this.#firstBehind(from); i < this.#made.length; i++) {
      const tensor = this.#made[i] as Made;
      const { offsetBytes, sizeBytes } = tensor;
      if (offsetBytes >= end) break;
      const [begin, until] = [Math.max(offsetBytes, from), Math.min(offsetBytes + sizeBytes, end)];
      await readBytes(source, tensor, into.subarray(begin - from, until - from), begin - offsetBytes);
    }
  }

  #source(read: ReadSection): ReadSource {
    return (name, target, fromBytes) => read(target, (this.#offsets.get(name) ?? Number.NaN) + fromBytes);
  }

  /** The first tensor that does not end before a byte. */
  #firstBehind(byte: number): number {
    let [low, high] = [0, this.#made.length];
    while (low < high) {
      const middle = (low + high) >>> 1;
      const { offsetBytes, sizeBytes } = this.#made[middle] as Made;
      if (offsetBytes + sizeBytes <= byte) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}

/** Gives each wanted tensor what is made under its name, in the type that is wanted. */
function matched(
  tensors: readonly ConvertedTensor[],
  wanted: readonly PlacedTensor[],
): { readonly made: readonly Made[] } | TensorMismatch {
  const left = new Map(tensors.map((tensor) => [tensor.name, tensor]));
  const made: Made[] = [];
  for (const target of wanted) {
    const { name, dtype, shape, offsetBytes, sizeBytes } = target;
    const found = left.get(name);
    if (!found || !isAlike(found, target))
      return {
        what: `tensor ${labelOf(name)}`,
        given: found ? formOf(found) : "not there",
        wanted: formOf({ dtype, shape }),
      };
    left.delete(name);
    const casts = found.dtype === dtype ? found.casts : [...found.casts, dtype];
    made.push({ ...found, dtype, casts, offsetBytes, sizeBytes });
  }
  const [more] = left.values();
  return more ? { what: `tensor ${labelOf(more.name)}`, given: formOf(more), wanted: "not there" } : { made };
}

function isAlike(found: ConvertedTensor, { dtype, shape }: PlacedTensor): boolean {
  const isCast = plainFloats.has(found.dtype) && plainFloats.has(dtype);
  return (found.dtype === dtype || isCast) && String(found.shape) === String(shape);
}

const formOf = ({ dtype, shape }: Pick<PlacedTensor, "dtype" | "shape">): string => `${dtype}[${shape.join(", ")}]`;

/** As `readConverted`, also of a part of an element. */
async function readBytes(source: ReadSource, tensor: Made, into: Uint8Array, from: number): Promise<void> {
  const unit = dtypes[tensor.dtype].bytes;
  const before = from % unit;
  const length = Math.ceil((before + into.length) / unit) * unit;
  if (length === into.length) return await readConverted(source, tensor, into, from);
  const whole = new Uint8Array(length);
  await readConverted(source, tensor, whole, from - before);
  into.set(whole.subarray(before, before + into.length));
}

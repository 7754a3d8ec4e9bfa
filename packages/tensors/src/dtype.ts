/** Element types of tensors: how many bytes one has, and what files and frameworks call it. */

/** What is known of an element type. */
export interface DTypeInfo {
  /** Bytes of one element. */
  readonly bytes: number;
  /** Name in safetensors files. */
  readonly safetensors: string;
  /** Name of the PyTorch dtype, without `torch.`. */
  readonly torch: string;
}

const row = (bytes: number, safetensors: string, torch: string): DTypeInfo => ({ bytes, safetensors, torch });

const table = {
  f64: row(8, "F64", "float64"),
  f32: row(4, "F32", "float32"),
  f16: row(2, "F16", "float16"),
  bf16: row(2, "BF16", "bfloat16"),
  f8_e4m3: row(1, "F8_E4M3", "float8_e4m3fn"),
  f8_e5m2: row(1, "F8_E5M2", "float8_e5m2"),
  i64: row(8, "I64", "int64"),
  i32: row(4, "I32", "int32"),
  i16: row(2, "I16", "int16"),
  i8: row(1, "I8", "int8"),
  u64: row(8, "U64", "uint64"),
  u32: row(4, "U32", "uint32"),
  u16: row(2, "U16", "uint16"),
  u8: row(1, "U8", "uint8"),
  bool: row(1, "BOOL", "bool"),
} as const;

/** Name of an element type. */
export type DType = keyof typeof table;

/** All element types, by name. */
export const dtypes: Readonly<Record<DType, DTypeInfo>> = table;

/** Names of all element types, in a fixed order. */
export const dtypeNames = Object.keys(table) as readonly DType[];

const bySafetensors = new Map<unknown, DType>(dtypeNames.map((name) => [table[name].safetensors, name]));

/** The element type that a safetensors file calls `name`; `null` for one that is not known. */
export function dtypeOfSafetensors(name: unknown): DType | null {
  return bySafetensors.get(name) ?? null;
}

/** What weights are: names, element types and shapes of tensors, the files that hold them, and what turns one form into another. */
export { castFloats, type FloatBytes, isFloatDType } from "./cast/cast.ts";
export type { FloatDType } from "./cast/formats.ts";
export {
  dequantize,
  quantize,
  type ScaledDType,
  type ScaledShape,
  type Scaling,
  scalesOf,
  scalesShapeOf,
} from "./cast/scales.ts";
export { type Conversion, type ConvertedTensor, convertTable } from "./convert/convert-table.ts";
export { checkTies, type ReadSource, readConverted } from "./convert/read-converted.ts";
export { type Part, type Rule, reverseRules } from "./convert/rules.ts";
export type { Run } from "./convert/runs.ts";
export { type ReadSection, SectionConversion, type TensorMismatch } from "./convert/section-conversion.ts";
export { type DType, type DTypeInfo, dtypeNames, dtypes } from "./dtype.ts";
export { encodeLlamaGguf, type LlamaGguf } from "./gguf/llama.ts";
export { readFloats } from "./read-floats.ts";
export {
  decodeSafetensorsHeader,
  encodeSafetensors,
  encodeSafetensorsHeader,
  headerBytesOf,
  type SafetensorsHeader,
} from "./safetensors/header.ts";
export { type ModelFolder, openModelFolder } from "./safetensors/model-folder.ts";
export { encodeModelIndex, encodeShards, modelIndexFile, shardFile } from "./safetensors/shards.ts";
export { TableCheck, tableRowsMax } from "./table/table-check.ts";
export { readTable, type TableSummary, type TableText, writeTable } from "./table/table-text.ts";
export { byOffset, bytesOf, faultOfSpec, type PlacedTensor, placeDensely, type TensorSpec } from "./tensor-spec.ts";

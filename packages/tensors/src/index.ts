/** What weights are: names, element types and shapes of tensors, the files that hold them, and what turns one form into another. */
export { type DType, type DTypeInfo, dtypeNames, dtypes } from "./dtype.ts";
export {
  decodeSafetensors,
  encodeSafetensors,
  encodeSafetensorsHeader,
  type SafetensorsFile,
  type SafetensorsHeader,
} from "./safetensors/header.ts";
export { type ModelFolder, openModelFolder } from "./safetensors/model-folder.ts";
export { bytesOf, type PlacedTensor, placeDensely, type TensorSpec } from "./tensor-spec.ts";

import { defineErrors } from "@muster/base";

/** Errors of tensors, of the files that hold them, and of what converts them. */
export const errors = defineErrors("MUSTER_ERR", {
  SafetensorsInvalid: { message: "safetensors file refused: {reason}" },
  ModelFolderInvalid: { message: "model folder {path} refused: {reason}" },
  TensorCastInvalid: { message: "tensor cannot be cast: {reason}" },
  GgufUnsupported: { message: "GGUF: {field} is {value}; it must be {rule}" },
  TensorRuleInvalid: { message: "conversion of tensors: {rule} {reason}" },
});

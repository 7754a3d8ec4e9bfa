/** Numbers of a model folder as another type, without memory for a whole tensor of the type that they are stored in. */
import { castFloats, elementsIn, type FloatBytes, isFloatDType } from "./cast/cast.ts";
import { dtypes } from "./dtype.ts";
import { errors } from "./errors.ts";
import type { ModelFolder } from "./safetensors/model-folder.ts";

const pieceElements = 1 << 20;

/**
 * Fills `to` with all numbers of a tensor.
 *
 * @throws MUSTER_ERR_TENSOR_CAST_INVALID for a tensor that holds no floating-point numbers, or another number of them; MUSTER_ERR_MODEL_FOLDER_INVALID
 */
export async function readFloats(folder: ModelFolder, name: string, to: FloatBytes): Promise<void> {
  const dtype = folder.tensors.get(name)?.dtype ?? to.dtype;
  if (dtype === to.dtype) return await folder.read(name, to.bytes);
  if (!isFloatDType(dtype))
    throw errors.TensorCastInvalid({ reason: `${name} holds ${dtype}, not floating-point numbers` });
  const [size, toSize] = [dtypes[dtype].bytes, dtypes[to.dtype].bytes];
  const elements = elementsIn(to);
  const piece = new Uint8Array(size * Math.min(pieceElements, elements));
  for (let at = 0; at < elements; at += pieceElements) {
    const bytes = piece.subarray(0, size * Math.min(pieceElements, elements - at));
    await folder.read(name, bytes, size * at);
    castFloats(
      { dtype, bytes },
      { dtype: to.dtype, bytes: to.bytes.subarray(toSize * at, toSize * (at + bytes.length / size)) },
    );
  }
}

/** A folder of Llama weights twice as wide: the same answers from four times the work, for a step of the job that takes two seconds of a core. */
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { encodeSafetensors, openModelFolder, placeDensely, readFloats } from "@muster/tensors";

/**
 * What is new is zero, so that it adds nothing to what was there; heads keep their width and become twice as many. The mean square of a row that is half
 * zeros is half of what it was, so norms are divided by the root of two.
 *
 * @param {string} from @param {string} to An empty folder.
 */
export async function widen(from, to) {
  const folder = await openModelFolder(from);
  try {
    const old = [...folder.tensors.values()];
    const tensors = placeDensely(
      old.map(({ name, dtype, shape }) => ({
        ...{ name, dtype },
        shape: shape.map((size, axis) => (name.includes("embed") && axis === 0 ? size : 2 * size)),
      })),
    );
    const bytes = new Uint8Array(tensors.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0));
    for (const [i, tensor] of tensors.entries()) {
      const [, columns = 1] = old[i]?.shape ?? [];
      const values = new Float32Array((old[i]?.sizeBytes ?? 0) / 4);
      await readFloats(folder, tensor.name, { dtype: "f32", bytes: new Uint8Array(values.buffer) });
      const wide = new Float32Array(bytes.buffer, tensor.offsetBytes, tensor.sizeBytes / 4);
      if (tensor.shape.length === 1) for (const [at, value] of values.entries()) wide[at] = value / Math.SQRT2;
      else for (let at = 0; at < values.length; at += columns) wide.set(values.subarray(at, at + columns), 2 * at);
    }
    await writeFile(join(to, "model.safetensors"), encodeSafetensors(tensors, bytes));
  } finally {
    await folder.close();
  }
  const config = JSON.parse(await readFile(join(from, "config.json"), "utf8"));
  for (const key of ["hidden_size", "intermediate_size", "num_attention_heads", "num_key_value_heads"])
    config[key] *= 2;
  await writeFile(join(to, "config.json"), JSON.stringify(config));
}

import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { castFloats, encodeSafetensors, placeDensely } from "@muster/tensors";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createEmbeddedPolicyEngine, loadHfFolder, saveHfFolder, tensorsOf } from "../src/embedded/index.ts";
import { openRollout, quiet, requestsOf, tiny, weightsOf } from "./rollout-fixture.ts";

let folder = "";
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "muster-hf-"));
});
afterEach(() => rm(folder, { recursive: true }));

describe("a model folder", () => {
  it("gives back the same shape and the same bytes", async () => {
    for (const model of [tiny, { ...tiny, tied: false }]) {
      const weights = await weightsOf(model, 9);
      await saveHfFolder(folder, model, weights);
      const loaded = await loadHfFolder(folder);
      expect(loaded.model).toEqual(model);
      expect(Buffer.compare(loaded.weights, weights)).toBe(0);
    }
  });

  it("starts a policy and updates a rollout engine", async () => {
    await saveHfFolder(folder, tiny, await weightsOf(tiny, 3));
    const policy = createEmbeddedPolicyEngine({ model: tiny });
    await policy.initialize({ kind: "folder", path: folder });
    expect(policy.state().weights.slice()).toEqual(await weightsOf(tiny, 3));
    expect(policy.state().optimizer.every((byte) => byte === 0)).toBe(true);
    const engine = await openRollout();
    const before = await engine.generate(requestsOf(2), quiet());
    await engine.updateWeights({ version: 2, via: "disk", path: folder });
    const after = await engine.generate(requestsOf(2), quiet());
    expect(after[1]!.map((one) => one.logprobs)).toEqual(before[1]!.map((one) => one.logprobs));
  });

  it("names its tensors as Hugging Face does, in the order of the state dict", () => {
    const names = tensorsOf({ ...tiny, layers: 1, tied: false }).map((tensor) => tensor.name.replace(/\.weight$/, ""));
    const layer = ["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj"];
    const rest = ["mlp.gate_proj", "mlp.up_proj", "mlp.down_proj", "input_layernorm", "post_attention_layernorm"];
    expect(names).toEqual([
      "model.embed_tokens",
      ...[...layer, ...rest].map((part) => `model.layers.0.${part}`),
      "model.norm",
      "lm_head",
    ]);
  });

  it("is read by name, so another order of tensors gives the same weights", async () => {
    const weights = await weightsOf(tiny, 3);
    await saveHfFolder(folder, tiny, weights);
    const reversed = [...tensorsOf(tiny)].reverse();
    const data = Buffer.concat(
      reversed.map((tensor) => weights.slice(tensor.offsetBytes, tensor.offsetBytes + tensor.sizeBytes)),
    );
    await writeFile(join(folder, "model.safetensors"), encodeSafetensors(placeDensely(reversed), data));
    expect(Buffer.compare((await loadHfFolder(folder)).weights, weights)).toBe(0);
  });

  it("may be stored in sixteen bits and in several files", async () => {
    const weights = await weightsOf(tiny, 3);
    await saveHfFolder(folder, tiny, weights);
    await rm(join(folder, "model.safetensors"));
    const rounded = new Uint8Array(weights.length);
    const map: Record<string, string> = {};
    for (const [index, spec] of tensorsOf(tiny).entries()) {
      const dtype = (["bf16", "f16"] as const)[index % 2]!;
      const bytes = weights.subarray(spec.offsetBytes, spec.offsetBytes + spec.sizeBytes);
      const stored = { dtype, bytes: new Uint8Array(bytes.length / 2) };
      castFloats({ dtype: "f32", bytes }, stored);
      castFloats(stored, {
        dtype: "f32",
        bytes: rounded.subarray(spec.offsetBytes, spec.offsetBytes + spec.sizeBytes),
      });
      map[spec.name] = `part-${index}.safetensors`;
      const file = encodeSafetensors(placeDensely([{ ...spec, dtype }]), stored.bytes);
      await writeFile(join(folder, `part-${index}.safetensors`), file);
    }
    await writeFile(join(folder, "model.safetensors.index.json"), JSON.stringify({ weight_map: map }));
    expect(Buffer.compare((await loadHfFolder(folder)).weights, rounded)).toBe(0);
  });

  it.each([
    ["model_type", "mamba"],
    ["rope_theta", 500000],
    ["hidden_act", "gelu"],
    ["attention_bias", true],
    ["head_dim", 4],
    ["vocab_size", "many"],
  ])("is refused when %s is %s", async (field, value) => {
    await saveHfFolder(folder, tiny, await weightsOf(tiny, 3));
    const path = join(folder, "config.json");
    const config = JSON.parse(await readFile(path, "utf8")) as object;
    await writeFile(path, JSON.stringify({ ...config, [field]: value }));
    await expect(loadHfFolder(folder)).rejects.toThrow(`${field} is ${value}`);
  });

  it("is refused when a tensor is missing or has another shape", async () => {
    await saveHfFolder(folder, { ...tiny, layers: 1 }, await weightsOf({ ...tiny, layers: 1 }, 3));
    const config = await readFile(join(folder, "config.json"), "utf8");
    await saveHfFolder(folder, tiny, await weightsOf(tiny, 3));
    const path = join(folder, "config.json");
    await writeFile(path, config.replace('"vocab_size": 11', '"vocab_size": 12'));
    await expect(loadHfFolder(folder)).rejects.toThrow("model.embed_tokens.weight is f32[11, 16]");
    await writeFile(path, config.replace('"num_hidden_layers": 1', '"num_hidden_layers": 3'));
    await expect(loadHfFolder(folder)).rejects.toThrow("model.layers.2.self_attn.q_proj.weight is absent");
    await writeFile(path, "[");
    await expect(loadHfFolder(folder)).rejects.toThrow("config.json is malformed");
  });
});

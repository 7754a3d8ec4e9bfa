import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import {
  createEmbeddedPolicyEngine,
  decodeSafetensors,
  encodeSafetensors,
  loadHfFolder,
  saveHfFolder,
  tensorsOf,
} from "../src/index.ts";
import { openRollout, quiet, requestsOf, tiny, weightsOf } from "./rollout-fixture.ts";

let folder = "";
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "muster-hf-"));
});
afterEach(() => rm(folder, { recursive: true }));

/** A safetensors file with any header. */
function fileOf(header: unknown, dataBytes: number): Uint8Array {
  const json = Buffer.from(typeof header === "string" ? header : JSON.stringify(header));
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(json.length));
  return Buffer.concat([length, json, Buffer.alloc(dataBytes)]);
}

const entry = (shape: readonly unknown[], from: unknown, to: unknown, dtype: unknown = "F32"): object => ({
  dtype,
  shape,
  data_offsets: [from, to],
});

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
    let offsetBytes = 0;
    const reversed = [...tensorsOf(tiny)].reverse();
    const moved = reversed.map((tensor) => {
      offsetBytes += tensor.sizeBytes;
      return { ...tensor, offsetBytes: offsetBytes - tensor.sizeBytes };
    });
    const data = Buffer.concat(
      reversed.map((tensor) => weights.slice(tensor.offsetBytes, tensor.offsetBytes + tensor.sizeBytes)),
    );
    await writeFile(join(folder, "model.safetensors"), encodeSafetensors(moved, data));
    expect(Buffer.compare((await loadHfFolder(folder)).weights, weights)).toBe(0);
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

describe("safetensors", () => {
  it("starts its tensors at a multiple of eight and needs no padding between them", () => {
    const file = encodeSafetensors(
      tensorsOf(tiny),
      new Uint8Array(tensorsOf(tiny).reduce((sum, t) => sum + t.sizeBytes, 0)),
    );
    expect(Number(Buffer.from(file).readBigUInt64LE(0)) % 8).toBe(0);
    expect(decodeSafetensors(file).tensors).toEqual(tensorsOf(tiny));
  });

  it.each<[string, Uint8Array, string]>([
    ["too short", new Uint8Array(7), "7 bytes are too few"],
    ["with a header longer than the file", fileOf({}, 0).subarray(0, 9), "does not fit"],
    ["with a header of 2^63 bytes", Buffer.from("ffffffffffffff7f00", "hex"), "over the limit"],
    ["without JSON", fileOf("{", 0), "not JSON"],
    ["with invalid UTF-8", fileOf(Buffer.from('{"\u00ff').toString("latin1"), 0), "not JSON"],
    ["whose header is a list", fileOf([], 0), "not an object"],
    ["whose header is null", fileOf("null", 0), "not an object"],
    ["with a tensor that is null", fileOf({ a: null }, 0), "unsupported dtype undefined"],
    ["with an unknown dtype", fileOf({ a: entry([1], 0, 4, "I64") }, 4), "unsupported dtype I64"],
    ["with an inherited name as dtype", fileOf({ a: entry([1], 0, 4, "constructor") }, 4), "unsupported dtype"],
    ["with a negative size", fileOf({ a: entry([-1], 0, 4) }, 4), "invalid shape"],
    ["with a fractional size", fileOf({ a: entry([0.5], 0, 2) }, 2), "invalid shape"],
    ["with a size that overflows", fileOf({ a: entry([2 ** 50, 2 ** 50], 0, 4) }, 4), "its shape says"],
    ["with a size that overflows and a zero", fileOf({ a: entry([2 ** 52, 2 ** 52, 0], 0, 0) }, 0), "its shape says"],
    [
      "that names a tensor twice, once with an escape",
      fileOf(
        '{"a":{"dtype":"F32","shape":[0],"data_offsets":[0,0]},"\\u0061":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}}',
        0,
      ),
      "comes twice",
    ],
    ["with an offset that is text", fileOf({ a: entry([1], "0", 4) }, 4), "invalid offsets"],
    ["with offsets in the wrong order", fileOf({ a: entry([1], 4, 0) }, 4), "has -4 bytes"],
    ["with a tensor beyond the end", fileOf({ a: entry([2], 0, 8) }, 4), "tensors end at 8, the data at 4"],
    [
      "with overlapping tensors",
      fileOf({ a: entry([2], 0, 8), b: entry([1], 4, 8) }, 8),
      "tensor b starts at 4, not at 8",
    ],
    ["with a hole", fileOf({ a: entry([1], 0, 4), b: entry([1], 8, 12) }, 12), "tensor b starts at 8, not at 4"],
    ["with bytes that belong to no tensor", fileOf({ a: entry([1], 0, 4) }, 8), "tensors end at 4, the data at 8"],
  ])("refuses a file %s", (_, file, reason) => {
    expect(() => decodeSafetensors(file)).toThrow(reason);
  });

  it("keeps a tensor named __proto__ from touching anything", () => {
    const { tensors } = decodeSafetensors(fileOf('{"__proto__":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}', 4));
    expect(tensors.map((tensor) => tensor.name)).toEqual(["__proto__"]);
  });
});

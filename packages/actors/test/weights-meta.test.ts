import { createEnveloper, decodeMessage, encodeMessage, flawOf } from "@muster/protocol";
import { expect, it } from "vitest";
import { weightsMeta } from "../src/policy/weights-meta.ts";

const tableOf = (count: number, name: (i: number) => string) =>
  Array.from({ length: count }, (_, i) => ({
    name: name(i),
    dtype: "bf16" as const,
    shape: [4_096, 1_536],
    offsetBytes: i * 12_582_912,
    sizeBytes: 12_582_912,
  }));
const digested: number[] = [];
const digest = (bytes: Uint8Array): string => `d${digested.push(bytes.byteLength)}`;

it.each([
  ["a small model", tableOf(300, (i) => `layers.${i}.weight`), 300, undefined],
  ["as many tensors as a message describes", tableOf(2_000, (i) => `layers.${i}.weight`), 2_000, undefined],
  ["one more", tableOf(2_001, (i) => `layers.${i}.weight`), 2_000, 1],
  ["a mixture of experts", tableOf(36_864, (i) => `model.layers.${i}.experts.${"x".repeat(400)}`), 2_000, 34_864],
  ["names outside of ASCII", tableOf(2_000, (i) => `层${i}.${"权".repeat(190)}`), 2_000, undefined],
])("the table of %s is a message that its receivers take, with a digest of all of it", (_, tensors, told, leftOut) => {
  const meta = weightsMeta(3, tensors, digest);
  expect(meta.tensors).toHaveLength(told);
  expect(meta.leftOut).toBe(leftOut);
  expect(digested.at(-1)).toBe(new TextEncoder().encode(JSON.stringify(tensors)).byteLength);
  expect(flawOf("weights.meta", meta)).toBeNull();
  const voice = createEnveloper({ job: "j", id: "policy-0", role: "policy", incarnation: "i1", wallMs: () => 0 });
  expect(decodeMessage(encodeMessage(voice.stamp("weights.meta", meta))).body).toEqual(meta);
});

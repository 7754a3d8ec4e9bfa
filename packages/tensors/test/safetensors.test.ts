import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type DType, dtypeNames, encodeSafetensorsHeader, type PlacedTensor, placeDensely } from "../src/index.ts";
import { decodeSafetensors } from "./support/decode-file.ts";
import { acceptsNaively } from "./support/naive-safetensors.ts";

const refused = (reason: RegExp): object =>
  expect.objectContaining({
    code: "MUSTER_ERR_SAFETENSORS_INVALID",
    message: expect.stringMatching(reason),
  });

/** A file of any header text, as a hostile writer would make it. */
function fileOf(header: string, dataBytes: number, declared = BigInt(Buffer.byteLength(header))): Uint8Array {
  const out = Buffer.alloc(8 + Buffer.byteLength(header) + dataBytes);
  out.writeBigUInt64LE(declared);
  out.write(header, 8);
  return out;
}

const tensor = (dtype: string, shape: string, offsets: string): string =>
  `{"dtype":"${dtype}","shape":${shape},"data_offsets":${offsets}}`;

describe("decodeSafetensors", () => {
  it("reads back what was written, as views into the file", () => {
    const tensors: PlacedTensor[] = [
      { name: "7", dtype: "f32", shape: [2, 2], offsetBytes: 0, sizeBytes: 16 },
      { name: "empty", dtype: "i64", shape: [0, 3], offsetBytes: 16, sizeBytes: 0 },
      { name: "scalar.é", dtype: "bf16", shape: [], offsetBytes: 16, sizeBytes: 2 },
    ];
    const header = encodeSafetensorsHeader(tensors, 18);
    const file = Uint8Array.from([...header, ...Array(18).keys()]);
    const read = decodeSafetensors(file);
    expect(read.tensors).toEqual(tensors);
    expect(read.metadata).toEqual({ format: "pt" });
    expect([...read.data]).toEqual([...Array(18).keys()]);
    expect(read.data.buffer).toBe(file.buffer);
    expect(read.data.byteOffset % 8).toBe(0);
  });

  const specs = fc.array(
    fc.record({ dtype: fc.constantFrom(...dtypeNames), shape: fc.array(fc.nat(5), { maxLength: 3 }) }),
    { maxLength: 12 },
  );
  const named = (rows: readonly { readonly dtype: DType; readonly shape: readonly number[] }[]) =>
    placeDensely(rows.map((row, index) => ({ name: `t${index}`, ...row })));

  it("round-trips any tiling", () => {
    fc.assert(
      fc.property(specs, (rows) => {
        const tensors = named(rows);
        const end = tensors.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0);
        const file = Buffer.concat([encodeSafetensorsHeader(tensors, end), Buffer.alloc(end)]);
        const byOffset = [...tensors].sort((a, b) => a.offsetBytes - b.offsetBytes || a.sizeBytes - b.sizeBytes);
        expect(decodeSafetensors(file).tensors).toEqual(byOffset);
      }),
      { seed: 11, numRuns: 100 },
    );
  });

  it("accepts exactly the files that a naive reader accepts, which looks at every byte of the data", () => {
    const change = fc.record({ row: fc.nat(11), what: fc.nat(4), by: fc.integer({ min: -3, max: 3 }) });
    let accepted = 0;
    fc.assert(
      fc.property(specs, fc.array(change, { maxLength: 2 }), fc.integer({ min: -1, max: 1 }), (rows, changes, more) => {
        const tensors = named(rows);
        const dataBytes = Math.max(
          0,
          tensors.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0) + (changes.length ? more : 0),
        );
        const entries = tensors.map(({ name, dtype, shape, offsetBytes, sizeBytes }) => {
          return {
            name,
            dtype: dtype.toUpperCase(),
            shape: [...shape],
            offsets: [offsetBytes, offsetBytes + sizeBytes],
          };
        });
        for (const { row, what, by } of changes) {
          const entry = entries[row % Math.max(1, entries.length)];
          if (!entry) continue;
          if (what === 0) entry.offsets[0]! += by;
          if (what === 1) entry.offsets[1]! += by;
          if (what === 2) entry.shape.splice(0, 1, (entry.shape[0] ?? 1) + by);
          if (what === 3) entry.dtype = ["F8_E8M0", "F16", "U16", "f32"][(by + 3) % 4]!;
          if (what === 4) entry.offsets = entry.offsets.map((offset) => offset + by);
        }
        const header = JSON.stringify(
          Object.fromEntries(
            entries.map(({ name, dtype, shape, offsets }) => [name, { dtype, shape, data_offsets: offsets }]),
          ),
        );
        const isAccepted = acceptsNaively(entries, dataBytes);
        accepted += isAccepted ? 1 : 0;
        const decode = () => decodeSafetensors(fileOf(header, dataBytes));
        if (isAccepted) expect(decode().tensors).toHaveLength(entries.length);
        else expect(decode).toThrow(refused(/./) as Error);
      }),
      { seed: 12, numRuns: 1500 },
    );
    expect(accepted).toBeGreaterThan(300);
    expect(accepted).toBeLessThan(1200);
  });

  const hostile: [string, Uint8Array, RegExp][] = [
    ["a file shorter than a header length", new Uint8Array(7), /too short/],
    ["a header over the limit", fileOf("{}", 0, 100_000_001n), /over the limit/],
    ["a header length of 2^64 - 1", fileOf("{}", 0, 2n ** 64n - 1n), /over the limit/],
    ["a header that ends after the file", fileOf("{}", 0, 3n), /ends after the file/],
    ["an empty header", fileOf("", 0), /not JSON/],
    ["a header that is not JSON", fileOf("{", 0), /not JSON/],
    ["a header that is a list", fileOf("[]", 0), /not a JSON object/],
    ["a header that starts with a space", fileOf(" {}", 0), /not a JSON object/],
    ["a header that is null", fileOf("null", 0), /not a JSON object/],
    [
      "a header nested a million deep",
      fileOf(`{"a":${"[".repeat(1e6)}${"]".repeat(1e6)}}`, 0),
      /must have exactly|not JSON/,
    ],
    ["bytes that are not UTF-8", Buffer.concat([fileOf("", 0, 2n), Buffer.from([0xff, 0xfe])]), /not UTF-8/],
    ["a byte order mark", fileOf("\ufeff{}", 0), /not JSON/],
    [
      "two tensors of one name",
      fileOf(`{"a":${tensor("U8", "[4]", "[0,4]")},"a":${tensor("U8", "[4]", "[0,4]")}}`, 4),
      /twice/,
    ],
    [
      "two tensors of one name, once escaped",
      fileOf(`{"a":${tensor("U8", "[4]", "[0,4]")},"\\u0061":${tensor("U8", "[4]", "[0,4]")}}`, 4),
      /twice/,
    ],
    [
      "a field that comes twice",
      fileOf(`{"a":{"dtype":"U8","dtype":"U8","shape":[4],"data_offsets":[0,4]}}`, 4),
      /twice/,
    ],
    ["metadata that comes twice", fileOf(`{"__metadata__":{"a":"1"},"__metadata__":{"a":"2"}}`, 0), /twice/],
    ["metadata that is not text", fileOf(`{"__metadata__":{"a":1}}`, 0), /only text/],
    ["metadata that is a list", fileOf(`{"__metadata__":[]}`, 0), /not an object/],
    ["__proto__ in the metadata", fileOf(`{"__metadata__":{"__proto__":"x"}}`, 0), /only text/],
    ["a tensor named __proto__", fileOf(`{"__proto__":${tensor("U8", "[4]", "[0,4]")}}`, 4), /reserved/],
    ["a tensor name with a line break", fileOf(`{"a\\n":${tensor("U8", "[4]", "[0,4]")}}`, 4), /control characters/],
    [
      "a tensor name of 201 characters",
      fileOf(`{"${"a".repeat(201)}":${tensor("U8", "[4]", "[0,4]")}}`, 4),
      /200 characters/,
    ],
    ["an unknown dtype", fileOf(`{"a":${tensor("F128", "[4]", "[0,64]")}}`, 64), /unknown dtype/],
    ["a dtype of the prototype", fileOf(`{"a":${tensor("toString", "[4]", "[0,64]")}}`, 64), /unknown dtype/],
    ["a field more", fileOf(`{"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4],"x":1}}`, 4), /must have exactly/],
    ["a field less", fileOf(`{"a":{"dtype":"U8","shape":[4]}}`, 4), /must have exactly/],
    ["a negative dimension", fileOf(`{"a":${tensor("U8", "[-2,-2]", "[0,4]")}}`, 4), /whole numbers/],
    ["a broken dimension", fileOf(`{"a":${tensor("U8", "[1.5]", "[0,4]")}}`, 4), /whole numbers/],
    [
      "a dimension with an exponent",
      fileOf(`{"a":${tensor("U8", "[4e0]", "[0,4]")}}`, 4),
      /whole numbers in plain digits/,
    ],
    [
      "an offset of minus nothing",
      fileOf(`{"a":${tensor("U8", "[4]", "[-0,4]")}}`, 4),
      /whole numbers in plain digits/,
    ],
    ["a tensor that is null", fileOf(`{"a":null}`, 0), /"null" at character|plain digits/],
    [
      "a tensor name that is half a character",
      fileOf(`{"\\ud800":${tensor("U8", "[4]", "[0,4]")}}`, 4),
      /control characters/,
    ],
    ["an offset that is text", fileOf(`{"a":${tensor("U8", "[4]", `["0",4]`)}}`, 4), /invalid data_offsets/],
    ["nine dimensions", fileOf(`{"a":${tensor("U8", "[1,1,1,1,1,1,1,1,4]", "[0,4]")}}`, 4), /dimensions/],
    [
      "a shape that overflows",
      fileOf(`{"a":${tensor("U8", "[4294967296,4294967296]", "[0,0]")}}`, 0),
      /too many bytes/,
    ],
    [
      "a shape that overflows before its zero",
      fileOf(`{"a":${tensor("U8", "[4503599627370496,4503599627370496,0]", "[0,0]")}}`, 0),
      /too many bytes/,
    ],
    ["a shape of another size", fileOf(`{"a":${tensor("F32", "[4]", "[0,4]")}}`, 4), /needs 16 bytes/],
    ["offsets that go back", fileOf(`{"a":${tensor("U8", "[4]", "[4,0]")}}`, 4), /needs 4 bytes/],
    ["three offsets", fileOf(`{"a":${tensor("U8", "[4]", "[0,4,4]")}}`, 4), /invalid data_offsets/],
    [
      "offsets beyond 2^53",
      fileOf(`{"a":${tensor("U8", "[4]", "[9007199254740993,9007199254740997]")}}`, 4),
      /invalid data_offsets/,
    ],
    ["a tensor beyond the file", fileOf(`{"a":${tensor("U8", "[8]", "[0,8]")}}`, 4), /cover 8 bytes of 4/],
    ["bytes that no tensor covers", fileOf(`{"a":${tensor("U8", "[4]", "[0,4]")}}`, 5), /cover 4 bytes of 5/],
    ["a gap", fileOf(`{"a":${tensor("U8", "[1]", "[0,1]")},"b":${tensor("U8", "[2]", "[2,4]")}}`, 4), /starts at 2/],
    [
      "an overlap",
      fileOf(`{"a":${tensor("U8", "[3]", "[0,3]")},"b":${tensor("U8", "[2]", "[2,4]")}}`, 4),
      /starts at 2/,
    ],
  ];
  it.each(hostile)("refuses %s", (_, file, reason) => {
    expect(() => decodeSafetensors(file)).toThrow(refused(reason) as Error);
  });

  it("reads metadata that is four million backslashes", () => {
    const text = "\\\\".repeat(2 ** 22);
    expect(decodeSafetensors(fileOf(`{"__metadata__":{"a":"${text}"}}`, 0)).metadata.a).toHaveLength(2 ** 22);
  });

  it("never answers a damaged header with anything but a refusal or another valid file", () => {
    const header = encodeSafetensorsHeader([{ name: "a", dtype: "f32", shape: [1], offsetBytes: 0, sizeBytes: 4 }], 4);
    const file = Buffer.concat([header, Buffer.alloc(4)]);
    for (let bit = 0; bit < header.length * 8; bit++) {
      const damaged = Buffer.from(file);
      damaged[bit >> 3]! ^= 1 << (bit & 7);
      try {
        expect(decodeSafetensors(damaged).data.length).toBe(4);
      } catch (error) {
        expect(error).toEqual(refused(/./));
      }
    }
  });
});

describe("encodeSafetensorsHeader", () => {
  it("refuses what the reader would refuse", () => {
    const row = { name: "a", dtype: "u8", shape: [4], offsetBytes: 0, sizeBytes: 4 } as const;
    const next = { ...row, offsetBytes: 4 };
    expect(() => encodeSafetensorsHeader([row, next], 8)).toThrow(refused(/same name/) as Error);
    expect(() => encodeSafetensorsHeader([next, { ...row, name: "b" }], 8)).toThrow(refused(/starts at 4/) as Error);
    expect(() => encodeSafetensorsHeader([row], 5)).toThrow(refused(/cover 4 bytes of 5/) as Error);
    expect(() => encodeSafetensorsHeader([{ ...row, name: "__proto__" }], 4)).toThrow(refused(/reserved/) as Error);
  });
});

/**
 * The framing of TensorFlow's record files: length, check sum of the length, bytes, check sum of the bytes. Numbers are little-endian; the sums are
 * CRC-32C, rotated and shifted so that a sum of bytes that hold sums is none of them. Pure.
 */

const polynomial = 0x82f63b78;

const table = Uint32Array.from({ length: 256 }, (_, byte) => {
  let value = byte;
  for (let bit = 0; bit < 8; bit++) value = value & 1 ? (value >>> 1) ^ polynomial : value >>> 1;
  return value >>> 0;
});

/** CRC-32C (Castagnoli) of bytes. */
export function crc32c(bytes: Uint8Array): number {
  let sum = 0xffffffff;
  for (const byte of bytes) sum = (sum >>> 8) ^ (table[(sum ^ byte) & 0xff] ?? 0);
  return (sum ^ 0xffffffff) >>> 0;
}

function masked(bytes: Uint8Array): number {
  const sum = crc32c(bytes);
  return (((sum >>> 15) | (sum << 17)) + 0xa282ead8) >>> 0;
}

/** One record. */
export function recordOf(bytes: Uint8Array): Uint8Array {
  const record = Buffer.alloc(16 + bytes.length);
  record.writeBigUInt64LE(BigInt(bytes.length), 0);
  record.writeUInt32LE(masked(record.subarray(0, 8)), 8);
  record.set(bytes, 12);
  record.writeUInt32LE(masked(bytes), 12 + bytes.length);
  return record;
}

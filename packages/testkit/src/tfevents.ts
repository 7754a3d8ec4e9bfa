/**
 * Reads files of events as TensorBoard does, from the published format and with nothing of the program that writes them: records with their check
 * sums, bit by bit, and the fields of the messages by their numbers.
 */

/** A scalar of a file. */
export interface EventScalar {
  readonly tag: string;
  readonly step: number;
  readonly value: number;
  readonly wallS: number;
}

/** What is in a file, in its order. */
export interface EventFile {
  readonly version: string;
  /** Steps from which on a reader forgets what it saw in files before. */
  readonly starts: readonly number[];
  readonly scalars: readonly EventScalar[];
}

/** Reads a whole file. @throws Error for a record that is cut or whose check sum is wrong. */
export function readEventFile(file: Uint8Array): EventFile {
  const view = Buffer.from(file.buffer, file.byteOffset, file.length);
  let version = "";
  const starts: number[] = [];
  const scalars: EventScalar[] = [];
  for (let at = 0; at < view.length; ) {
    const length = Number(view.readBigUInt64LE(at));
    check(view.subarray(at, at + 8), view.readUInt32LE(at + 8), at);
    const data = view.subarray(at + 12, at + 12 + length);
    check(data, view.readUInt32LE(at + 12 + length), at);
    at += 16 + length;
    const event = fieldsOf(data);
    const step = Number(event.find(({ number }) => number === 2)?.varint ?? 0);
    const wallS = event.find(({ number }) => number === 1)?.bytes.readDoubleLE(0) ?? 0;
    for (const { number, bytes } of event) {
      if (number === 3) version = bytes.toString("utf8");
      if (number === 7 && fieldsOf(bytes).some((field) => field.number === 1 && field.varint === 1n)) starts.push(step);
      if (number === 5) for (const value of fieldsOf(bytes)) scalars.push(scalarOf(value.bytes, step, wallS));
    }
  }
  return { version, starts, scalars };
}

function scalarOf(bytes: Buffer, step: number, wallS: number): EventScalar {
  const fields = fieldsOf(bytes);
  const tag = fields.find(({ number }) => number === 1)?.bytes.toString("utf8") ?? "";
  return { tag, step, wallS, value: fields.find(({ number }) => number === 2)?.bytes.readFloatLE(0) ?? Number.NaN };
}

interface Field {
  readonly number: number;
  readonly varint: bigint;
  readonly bytes: Buffer;
}

function fieldsOf(message: Buffer): readonly Field[] {
  const fields: Field[] = [];
  let at = 0;
  const varint = (): bigint => {
    let value = 0n;
    for (let shift = 0n; ; shift += 7n) {
      const byte = message.readUInt8(at++);
      value |= BigInt(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
  };
  const take = (length: number): Buffer => {
    if (at + length > message.length) throw new Error("a field is longer than its message");
    at += length;
    return message.subarray(at - length, at);
  };
  while (at < message.length) {
    const tag = varint();
    const number = Number(tag >> 3n);
    const none = Buffer.alloc(0);
    if ((tag & 7n) === 0n) fields.push({ number, varint: varint(), bytes: none });
    else if ((tag & 7n) === 1n) fields.push({ number, varint: 0n, bytes: take(8) });
    else if ((tag & 7n) === 2n) fields.push({ number, varint: 0n, bytes: take(Number(varint())) });
    else if ((tag & 7n) === 5n) fields.push({ number, varint: 0n, bytes: take(4) });
    else throw new Error(`field ${number} has wire type ${tag & 7n}`);
  }
  return fields;
}

function check(bytes: Uint8Array, masked: number, at: number): void {
  const rotated = (masked - 0xa282ead8) >>> 0;
  const wanted = ((rotated << 15) | (rotated >>> 17)) >>> 0;
  let sum = 0xffffffff;
  for (const byte of bytes) {
    sum ^= byte;
    for (let bit = 0; bit < 8; bit++) sum = sum & 1 ? (sum >>> 1) ^ 0x82f63b78 : sum >>> 1;
  }
  if ((sum ^ 0xffffffff) >>> 0 !== wanted) throw new Error(`the record at byte ${at} has another check sum`);
}

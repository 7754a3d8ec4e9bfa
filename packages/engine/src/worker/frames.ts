/** Frames of the worker protocol: four bytes of length, little endian, and as many bytes of JSON in UTF-8: one object. */

/** Longest frame, in bytes of JSON. */
const frameMax = 4 * 2 ** 20;

const headerBytes = 4;

/** A message as a frame. Pure. @throws Error for one that is too long */
export function frameOf(message: object, max: number = frameMax): Buffer {
  const body = Buffer.from(JSON.stringify(message), "utf8");
  if (body.length > max) throw new Error(`a message of ${body.length} bytes, and at most ${max} are taken`);
  const frame = Buffer.allocUnsafe(headerBytes + body.length);
  frame.writeUInt32LE(body.length, 0);
  body.copy(frame, headerBytes);
  return frame;
}

/** Takes a stream of bytes apart. It holds one frame at most. */
export class FrameReader {
  readonly #max: number;
  #parts: Buffer[] = [];
  #held = 0;

  constructor(max: number = frameMax) {
    this.#max = max;
  }

  /**
   * Takes what came. @returns The whole messages in it.
   *
   * @throws Error that says what is no frame; nothing that comes after it means anything.
   */
  take(bytes: Buffer): readonly object[] {
    this.#parts.push(bytes);
    this.#held += bytes.length;
    const messages: object[] = [];
    for (let length = this.#length(); length !== null && this.#held >= headerBytes + length; length = this.#length()) {
      const all = Buffer.concat(this.#parts);
      messages.push(messageIn(all.subarray(headerBytes, headerBytes + length)));
      const rest = all.subarray(headerBytes + length);
      this.#parts = rest.length > 0 ? [rest] : [];
      this.#held = rest.length;
    }
    return messages;
  }

  #length(): number | null {
    if (this.#held < headerBytes) return null;
    if (this.#parts[0]!.length < headerBytes) this.#parts = [Buffer.concat(this.#parts)];
    const length = this.#parts[0]!.readUInt32LE(0);
    if (length >= 2 && length <= this.#max) return length;
    throw new Error(`a frame of ${length} bytes, and it must have 2 to ${this.#max}; is something else written there?`);
  }
}

function messageIn(body: Buffer): object {
  const text = new TextDecoder("utf-8", { fatal: true });
  let message: unknown;
  try {
    message = JSON.parse(text.decode(body));
  } catch {
    throw new Error(
      `a frame of ${body.length} bytes that is no JSON: ${JSON.stringify(body.toString("latin1", 0, 60))}`,
    );
  }
  if (typeof message === "object" && message !== null && !Array.isArray(message)) return message;
  throw new Error("a frame whose JSON is no object");
}

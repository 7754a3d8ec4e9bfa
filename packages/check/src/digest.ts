/** The digest that checkers trust. It shares no code with any that production computes. */

/** A running hash of text and numbers: of the event log, and the checkers' own digest of bytes. */
export class RunningHash {
  #a = 0x9e3779b9;
  #b = 0x85ebca6b;

  text(value: string): void {
    for (let i = 0; i < value.length; i++) this.#mix(value.charCodeAt(i));
    this.#mix(0x1ff);
  }

  number(value: number): void {
    this.#mix(Math.floor(value * 1000) | 0);
  }

  bytes(value: Uint8Array): void {
    for (let i = 0; i < value.length; i++) this.#mix(value[i] as number);
    this.#mix(0x2ff);
  }

  digest(): string {
    return (this.#a >>> 0).toString(16).padStart(8, "0") + (this.#b >>> 0).toString(16).padStart(8, "0");
  }

  #mix(value: number): void {
    this.#a = Math.imul(this.#a ^ value, 0x5bd1e995);
    this.#a ^= this.#a >>> 15;
    this.#b = (Math.imul(this.#b, 31) + value) | 0;
  }
}

/** The checkers' own digest of bytes. */
export function ownDigest(bytes: Uint8Array): string {
  const hash = new RunningHash();
  hash.bytes(bytes);
  return hash.digest();
}

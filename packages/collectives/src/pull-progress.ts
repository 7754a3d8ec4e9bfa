/** How far a pull is, while it runs. The addon counts in memory that it shares with JavaScript, which looks there now and then. */
import { checkWhole } from "./check.ts";

/** How far a version has come over the network. */
export interface PullProgress {
  /** Bytes that have arrived and are verified. */
  readonly bytes: number;
  readonly totalBytes: number;
}

/** Who wants to know how far a pull is. */
export interface ProgressOptions {
  /** Called while a version comes over the network and gets further. Versions of the same host are there at once. */
  readonly onProgress?: (progress: PullProgress) => void;
  /** Shortest time between two calls in milliseconds, 1 … 60,000; default 1000. */
  readonly progressEveryMs?: number;
}

/** Runs a pull that counts in the memory that it is given: 16 bytes. @throws MUSTER_ERR_NATIVE_OPTION_INVALID */
export async function withProgress<T>(
  { onProgress, progressEveryMs = 1000 }: ProgressOptions,
  pull: (memory: Uint8Array) => Promise<T>,
): Promise<T> {
  checkWhole("progressEveryMs", progressEveryMs, { min: 1, max: 60_000 });
  const words = new BigUint64Array(2);
  let told = 0;
  const tell = (): void => {
    const bytes = Number(Atomics.load(words, 0));
    if (bytes === told) return;
    told = bytes;
    onProgress?.({ bytes, totalBytes: Number(Atomics.load(words, 1)) });
  };
  const timer = onProgress ? setInterval(tell, progressEveryMs) : undefined;
  try {
    return await pull(new Uint8Array(words.buffer));
  } finally {
    clearInterval(timer);
  }
}

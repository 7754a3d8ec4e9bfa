/** Publishes what nobody said, past every sender: whoever hears it must refuse it, or know it for what it was (reliability 2, J1 – J3). */
import type { Random } from "@muster/base";
import type { AnyNetwork } from "../net/network.ts";

interface Forged {
  readonly subject: string;
  readonly data: Uint8Array;
}

/** A stranger with access to the broker. */
export class Forger {
  readonly #network: AnyNetwork;
  readonly #random: Random;
  #count = 0;

  constructor(network: AnyNetwork, random: Random) {
    this.#network = network;
    this.#random = random;
  }

  /** Publishes so many forgeries, made of what was said last. */
  forge(count: number): void {
    for (let i = 0; i < count; i++) {
      const forged = this.#make();
      if (forged) void this.#network.store.publish(forged.subject, forged.data, { msgId: `forged-${++this.#count}` });
    }
  }

  #make(): Forged | null {
    const random = this.#random;
    const { recent } = this.#network;
    // The groups stream is read by sequence; what lies in it under no receipt is read by nobody.
    const heard = recent.filter(({ subject }) => /\.(reports|commands)\./.test(subject));
    const real = heard[random.below(Math.max(1, heard.length))];
    const other = heard[random.below(Math.max(1, heard.length))];
    if (!real || !other) return null;
    const { subject, data } = real;
    switch (random.below(4)) {
      case 0:
        return { subject, data: Uint8Array.from({ length: 1 + random.below(400) }, () => random.below(256)) };
      case 1:
        return { subject, data: data.slice(0, random.below(data.length)) };
      case 2:
        return { subject: other.subject, data };
      default:
        return { subject, data };
    }
  }
}

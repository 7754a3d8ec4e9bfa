/** Looks how full the streams are: for metrics and the status, and for the machine when the groups stream passes a mark. */
import type { Logger, Metrics } from "@muster/base";
import { type Fill, type FilledEvent, isFillNews } from "@muster/machines/controller";
import { type StreamName, type StreamUsage, streamNames, type Transport } from "@muster/transport";

/** Between two looks, each of which asks once per stream. */
export const streamsEveryMs = 2_000;

/** What is seen of the streams; those that were not seen yet are absent. */
export type StreamReadings = Readonly<Partial<Record<StreamName, StreamUsage>>>;

/** What a watch of streams is made from. */
export interface StreamWatchOptions {
  readonly transport: Pick<Transport, "usage" | "purge" | "isConnected">;
  readonly logger: Logger;
  readonly metrics: Metrics;
  /** How full the groups stream is as far as the machine knows. */
  readonly known: () => Fill | undefined;
  /** Tells the machine what is news to it. */
  readonly passed: (fill: Omit<FilledEvent, "atMs">) => void;
}

/** Watches the streams of a job for one term. */
export class StreamWatch {
  readonly #options: StreamWatchOptions;
  readonly #show: (name: StreamName, usage: StreamUsage) => void;
  #seen: StreamReadings = {};
  #isLooking = false;

  constructor(options: StreamWatchOptions) {
    this.#options = options;
    const { metrics } = options;
    const labels = ["stream"];
    const held = metrics.gauge({ name: "muster_stream_bytes", help: "Bytes that a stream holds.", labels });
    const max = metrics.gauge({
      name: "muster_stream_bytes_max",
      help: "Bytes that a stream may hold; 0: any.",
      labels,
    });
    this.#show = (stream, { bytes, bytesMax }) => {
      held.set(bytes, { stream });
      max.set(bytesMax ?? 0, { stream });
    };
  }

  seen(): StreamReadings {
    return this.#seen;
  }

  /** Removes groups that a checkpoint covers, and looks what room that made. */
  async purgeGroups(beforeSeq: number): Promise<void> {
    const { transport, logger } = this.#options;
    try {
      await transport.purge("groups", beforeSeq);
    } catch (error) {
      logger.warn({ error, beforeSeq }, "groups were not purged; the next checkpoint does it");
    }
    void this.look();
  }

  /** Looks once; not at all while the broker is away, or a look is under way. */
  async look(): Promise<void> {
    const { transport, logger } = this.#options;
    if (this.#isLooking || !transport.isConnected()) return;
    this.#isLooking = true;
    try {
      for (const name of streamNames) this.#saw(name, await transport.usage(name));
    } catch (error) {
      logger.debug({ error }, "the broker did not say how full the streams are");
    }
    this.#isLooking = false;
  }

  #saw(name: StreamName, usage: StreamUsage): void {
    const { known, passed } = this.#options;
    this.#seen = { ...this.#seen, [name]: usage };
    this.#show(name, usage);
    if (name === "groups" && isFillNews(known(), usage)) passed({ type: "controller.filled", ...usage });
  }
}

/** Waits for a version that every stage of a pipeline offers, and knows at any time why there is none yet. */
import { hasCode, type MusterError, messageOf } from "@muster/base";
import { errors } from "../errors.ts";
import type { MetricsCollector } from "../metrics/collector.ts";
import type { CoordinatorCalls } from "./coordinator-calls.ts";
import { checkedManifest, type Manifest } from "./manifest.ts";

/** The newest version of a group as the coordinator tells it: the number is null when there never was one, the manifest when its source is gone. */
export interface Offer {
  readonly version: number | null;
  readonly sender: string | null;
  readonly manifest: unknown;
}

/** An offer with a source and a checked manifest. */
export interface WholeOffer {
  readonly version: number;
  readonly sender: string;
  readonly manifest: Manifest;
}

/** What a watch works with. */
export interface WatchOptions {
  readonly calls: CoordinatorCalls;
  readonly metrics: MetricsCollector;
  /** Role that receives. */
  readonly role: string;
  /** Versions are above this one. */
  readonly after: number;
  /** As `performance.now()` counts. */
  readonly endMs: number;
  /** Ends every wait. */
  readonly signal: AbortSignal;
}

/** Longest wait of one call, in seconds. */
const pollS = 20;

/** One wait for the next version. */
export class OfferWatch {
  readonly #options: WatchOptions;
  #why = "the coordinator was not asked yet";

  constructor(options: WatchOptions) {
    this.#options = options;
  }

  /** What the last source failed with: the reason, until something else is known. */
  blame(error: unknown): void {
    this.#why = messageOf(error);
  }

  /** Offers of one version by every stage. @throws MUSTER_ERR_WEIGHTS_LATE with the reason, MUSTER_ERR_PEER_GONE for a source that makes no sense */
  async next(): Promise<readonly WholeOffer[]> {
    for (let floor = this.#options.after; ; ) {
      const first = await this.#offer(0, floor);
      const offers = [first];
      const stages = first.manifest.pp_size ?? 1;
      for (let stage = 1; stage < stages; stage++) offers.push(await this.#offer(stage, floor));
      const newest = Math.max(...offers.map(({ version }) => version));
      if (offers.some(({ version }) => version !== newest)) {
        floor = newest - 1;
        continue;
      }
      const odd = offers.findIndex(({ manifest }) => (manifest.pp_size ?? 1) !== stages);
      if (odd < 0) return offers;
      const reason = `manifest.pp_size: stage ${odd} is of ${offers[odd]?.manifest.pp_size ?? 1} stages, and stage 0 of ${stages}`;
      throw errors.PeerGone({ address: offers[odd]?.sender ?? "", reason });
    }
  }

  async #offer(stage: number, after: number): Promise<WholeOffer> {
    const { role, endMs } = this.#options;
    const group_name = `${role}/pp_${stage}`;
    // Each stage is asked at least once: otherwise nothing is known of it.
    for (let isAsked = false; ; isAsked = true) {
      const leftS = (endMs - performance.now()) / 1_000;
      if (isAsked && leftS <= 0) throw this.late();
      const query = {
        ...{ group_name, after_version: after },
        wait_timeout_s: Math.max(0.1, Math.min(pollS, leftS)).toFixed(3),
      };
      const offer = await this.#asked(query);
      if (offer === null) continue;
      const { version, sender, manifest } = offer;
      if (version !== null && sender !== null && manifest !== null && version > after)
        return { version, sender, manifest: checkedManifest(manifest, sender) };
      this.#why = whyNone(offer, { group_name, after });
    }
  }

  /** The error of a wait that is over. */
  late(): MusterError {
    const { role, after } = this.#options;
    return errors.WeightsLate({ version: after, role, reason: this.#why });
  }

  /** Null while the coordinator is away: it comes back with the same offers. */
  async #asked(query: Readonly<Record<string, string | number>>): Promise<Offer | null> {
    const { calls, metrics, signal, endMs } = this.#options;
    try {
      // Its answer is on its way when the wait is over.
      return await calls.get<Offer>("/weight_offer", query, { endMs: endMs + answerMs });
    } catch (error) {
      if (!hasCode(error, "MUSTER_ERR_COORDINATOR_GONE") || signal.aborted) throw error;
      metrics.recordError("coordinator");
      this.#why = messageOf(error);
      return null;
    }
  }
}

/** Time for an answer to arrive after its wait. */
const answerMs = 5_000;

function whyNone({ version, manifest }: Offer, of: { readonly group_name: string; readonly after: number }): string {
  if (version === null) return `nobody has offered any version of ${of.group_name}`;
  if (manifest === null)
    return `the source of version ${version} of ${of.group_name} is gone, and nobody offers another`;
  return `${of.group_name} is at version ${version}, and none above ${of.after} is offered`;
}

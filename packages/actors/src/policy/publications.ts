/** What a policy replica serves of its live state: the parts that somebody reads, under the digests that are committed. */
import { type Body, type Section, type VersionPart, versionParts } from "@muster/protocol";
import type { Environment } from "../environment.ts";
import { errors } from "../errors.ts";
import { type TransferMeters, transferMetersOn } from "../metered-ports.ts";
import type { WeightHolding } from "../weights.ts";
import type { Published, TrainerState } from "./trainer-state.ts";

type VersionId = Pick<WeightHolding, "lineage" | "version">;

/** Whose state is published, and where. */
interface Publisher {
  readonly state: Pick<TrainerState, "publish">;
}

/** A version as it was ordered: its name and digests, and which parts of it are published. */
interface Ordered extends VersionId {
  readonly sections: readonly Section[];
  readonly parts: readonly VersionPart[];
}

/** Publishes parts of the live state of one engine. */
export class Publications {
  readonly #environment: Pick<Environment, "clock" | "logger" | "metrics">;
  readonly #meters: TransferMeters;
  /** The version that is the live state, once it is published. */
  #live: Omit<Ordered, "parts"> | null = null;

  constructor(environment: Pick<Environment, "clock" | "logger" | "metrics">) {
    this.#environment = environment;
    this.#meters = transferMetersOn(environment.metrics, environment.clock);
  }

  /** Publishes the first version of a line: whole, because nobody knows its digests, and because whoever waits for it needs all of it. */
  async first(publisher: Publisher, id: VersionId): Promise<WeightHolding> {
    this.#live = null;
    return await this.#publish(publisher, { ...id, sections: [], parts: versionParts });
  }

  /** Publishes `serving` of what was pulled; the rest is as it was verified on its way. */
  async pulled(publisher: Publisher, { lineage, version, sections }: Omit<Ordered, "parts">): Promise<WeightHolding> {
    this.#live = null;
    return await this.#publish(publisher, { lineage, version, sections, parts: ["serving"] });
  }

  /** Publishes what was committed: `serving`, and what the order says besides; everything, where it says nothing. @throws MUSTER_ERR_PROMOTED_DIFFERS */
  async promoted(
    publisher: Publisher,
    { lineage, version, sections, keep }: Pick<Body<"step.apply">, "lineage" | "version" | "sections" | "keep">,
  ): Promise<WeightHolding> {
    this.#live = null;
    const parts: readonly VersionPart[] = keep ? ["serving", ...keep] : versionParts;
    return await this.#committed(publisher, { lineage, version, sections, parts });
  }

  async #committed(publisher: Publisher, ordered: Ordered): Promise<WeightHolding> {
    const held = await this.#publish(publisher, ordered);
    for (const { name, digest: wanted } of ordered.sections) {
      const found = held.sections.find((section) => section.name === name)?.digest ?? "none";
      if (found !== wanted) throw errors.PromotedDiffers({ version: ordered.version, section: name, found, wanted });
    }
    return held;
  }

  /**
   * Publishes what was left out of the live version, should that be the one that is meant.
   *
   * @throws MUSTER_ERR_VERSION_NOT_HELD, MUSTER_ERR_PROMOTED_DIFFERS
   */
  async later(publisher: Publisher, { lineage, version, parts }: Body<"weights.publish">): Promise<WeightHolding> {
    const live = this.#live;
    if (live?.lineage !== lineage || live.version !== version) {
      const held = live === null ? "none" : `${live.version} of lineage ${live.lineage}`;
      throw errors.VersionNotHeld({ wanted: version, lineage, held });
    }
    return await this.#committed(publisher, { ...live, parts });
  }

  /** What is not published has the digests that are known of it. */
  async #publish({ state }: Publisher, { lineage, version, sections: known, parts }: Ordered): Promise<WeightHolding> {
    const { clock, logger } = this.#environment;
    const id = { lineage, version };
    const startedMs = clock.now();
    const bytesOf = (published: Pick<Published, "sections">): number =>
      published.sections.reduce((sum, section) => sum + section.bytes, 0);
    const publish = () => state.publish(id, parts);
    const { sections: published, ...where } = await this.#meters.measure("publish", { bytes: bytesOf }, publish);
    const bytes = bytesOf({ sections: published });
    const sections =
      known.length === 0 ? [...published] : known.map((one) => published.find(({ name }) => name === one.name) ?? one);
    this.#live = { ...id, sections };
    const durationMs = clock.now() - startedMs;
    logger.info({ ...id, parts, bytes, durationMs }, "weights published");
    return { ...id, sections, ...where, bytes, durationMs };
  }
}

/** The client of the checkpoint service: in the coordinator's table while it lives, and weights from those who train to those who use them. */
import { createHash, randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { hasCode, MusterError } from "@muster/base";
import { errors } from "../errors.ts";
import { MetricsCollector } from "../metrics/collector.ts";
import { TcpBackend } from "./backend.ts";
import { CoordinatorCalls } from "./coordinator-calls.ts";
import type { Manifest } from "./manifest.ts";
import { type Offer, OfferWatch } from "./offer-watch.ts";
import type { Package } from "./package-server.ts";
import { type TensorDict, TensorFusion } from "./tensors.ts";

/** A whole version, verified. */
export interface Weights {
  readonly version: number;
  /** Over the digests of all buffers. */
  readonly digest: string;
  readonly tensors: TensorDict;
}

/** How an update ended. */
export interface UpdateResult {
  readonly version: number;
  readonly digest: string;
  /** Node ids of those who hold it. */
  readonly held: readonly string[];
  /** Living receivers that do not. */
  readonly missing: readonly string[];
}

/** What a client is made from. Times have the defaults of the document. */
export interface CheckpointClientOptions {
  readonly coordinatorUrl: string;
  readonly role: string;
  /** Left out for any free one. */
  readonly rank?: number;
  readonly worldSize?: number;
  /** Default `127.0.0.1`. */
  readonly ip?: string;
  /** Default any free one. */
  readonly port?: number;
  readonly deviceId?: number;
  readonly metadata?: Readonly<Record<string, unknown>>;
  readonly quantizationConfig?: unknown;
  readonly token?: string;
  readonly heartbeatIntervalSeconds?: number;
  readonly maxRetries?: number;
  readonly retryDelaySeconds?: number;
  readonly timeoutSeconds?: number;
  /** Bytes. */
  readonly tensorFusionThreshold?: number;
  readonly metrics?: MetricsCollector;
}

/** Answer of the coordinator about the groups of an update. */
export interface UpdateGroups {
  readonly global_rank: number;
  readonly world_size: number;
  readonly train_pp_size: number;
  readonly pp_groups: Readonly<Record<string, string>>;
  readonly membership_epoch: number;
  readonly need_update_ref: boolean;
}

/** Longest wait for the coordinator to say whose a rank is; one that is away does not hold weights up. */
const lifeMs = 2_000;

/** One process of a role. */
export class CheckpointEngineClient {
  readonly role: string;
  readonly metrics: MetricsCollector;
  readonly backend: TcpBackend;
  rank: number | null;
  isRegistered = false;
  /** Null or a whole version; replaced in one assignment. */
  weights: Weights | null = null;
  readonly #options: CheckpointClientOptions;
  readonly #calls: CoordinatorCalls;
  readonly #ending = new AbortController();
  readonly #incarnation = randomUUID();
  readonly #timeoutMs: number;
  #beating: Promise<void> = Promise.resolve();
  #offered: readonly string[] = [];
  #keys = 0;
  #updating: Promise<unknown> = Promise.resolve();
  /** Newest version published here: a coordinator that began empty does not know it. */
  #version = 0;
  #isLeaving = false;

  constructor(options: CheckpointClientOptions) {
    const { coordinatorUrl: url, token, maxRetries, retryDelaySeconds, ip = "127.0.0.1", port = 0 } = options;
    this.#options = options;
    this.role = options.role;
    this.rank = options.rank ?? null;
    this.metrics = options.metrics ?? new MetricsCollector();
    this.#timeoutMs = (options.timeoutSeconds ?? 300) * 1_000;
    this.#calls = new CoordinatorCalls({ url, token, maxRetries, retryDelaySeconds, signal: this.#ending.signal });
    this.backend = new TcpBackend({
      ...{ calls: this.#calls, metrics: this.metrics, host: ip, port, timeoutMs: this.#timeoutMs },
      ...{ fusion: new TensorFusion(options.tensorFusionThreshold), signal: this.#ending.signal },
    });
  }

  /** `{role}_{rank}`. */
  get nodeId(): string {
    return `${this.role}_${this.rank}`;
  }

  /** Opens the backend, registers, and begins to give signs of life. */
  async start(): Promise<this> {
    const port = await this.backend.initProcessGroup();
    try {
      await this.#register(port);
    } catch (error) {
      await this.backend.close();
      throw error;
    }
    this.#beating = this.#beat(port);
    return this;
  }

  /** Leaves the table, and ends heartbeat and transfers. */
  async stop(): Promise<void> {
    try {
      this.#isLeaving = true;
      if (this.isRegistered) await this.#calls.delete("/unregister", this.#life());
    } catch (error) {
      if (!(error instanceof MusterError)) throw error;
      // Its heartbeats end, so the coordinator will find out.
      this.metrics.recordError("unregister");
    } finally {
      this.isRegistered = false;
      this.#ending.abort();
      await this.#beating;
      await this.backend.close();
    }
  }

  /**
   * Publishes the next version, and waits until all living receivers hold it. Both roles receive unless one is asked for alone. With
   * several pipeline stages, give each the same `version`, such as the training step: receivers join stages of one version, and a stage
   * whose update failed would otherwise count on from another one.
   */
  updateWeightsForRollout(
    tensors: TensorDict,
    {
      rolloutOnly = false,
      actorFwdOnly = false,
      version,
    }: { readonly rolloutOnly?: boolean; readonly actorFwdOnly?: boolean; readonly version?: number } = {},
  ): Promise<UpdateResult> {
    const roles = [...(actorFwdOnly ? [] : ["rollout"]), ...(rolloutOnly ? [] : ["actor_fwd"])];
    return this.#update(roles, tensors, version);
  }

  /** Ranks and groups of the update of this rollout; null for a reference when it is not its turn. */
  async initProcessGroupsForActorFwdRef(rolloutId: number, refUpdateInterval?: number): Promise<UpdateGroups | null> {
    const needed = refUpdateInterval !== undefined && (rolloutId + 1) % refUpdateInterval === 0;
    if (this.role === "reference" && !needed) return null;
    const query = { role: this.role, rank: this.rank ?? 0, need_update_ref: needed };
    const groups = await this.#calls.get<Omit<UpdateGroups, "need_update_ref">>("/get_model_update_group_ranks", query);
    return { ...groups, need_update_ref: needed };
  }

  /** The same as for rollouts, to actor_fwd and, when it is its turn, to reference. */
  async updateWeightsForActorFwdRef(
    tensors: TensorDict,
    rolloutId: number,
    refUpdateInterval?: number,
    { version }: { readonly version?: number } = {},
  ): Promise<UpdateResult> {
    const groups = await this.initProcessGroupsForActorFwdRef(rolloutId, refUpdateInterval);
    return this.#update(groups?.need_update_ref ? ["actor_fwd", "reference"] : ["actor_fwd"], tensors, version);
  }

  /**
   * The next whole version after the one held.
   *
   * @throws MUSTER_ERR_WEIGHTS_LATE with the reason; then `weights` is what it was. MUSTER_ERR_COORDINATOR_REFUSED when another process has the rank.
   */
  async recvWeight(timeoutSeconds = this.#timeoutMs / 1_000): Promise<Weights> {
    const endMs = performance.now() + timeoutSeconds * 1_000;
    const watch = new OfferWatch({
      ...{ calls: this.#calls, metrics: this.metrics, role: this.role, endMs, signal: this.#ending.signal },
      after: this.weights?.version ?? 0,
    });
    for (;;) {
      try {
        const offers = await watch.next();
        const parts: TensorDict[] = [];
        for (const { manifest, sender } of offers)
          parts.push(await this.backend.fetch(manifest, sender, endMs - performance.now()));
        await this.#refuseLost();
        const [first] = offers;
        const digest = digestOf(offers.map(({ manifest }) => manifest));
        this.weights = { version: first?.version ?? 0, digest, tensors: Object.assign({}, ...parts) };
        await Promise.all(offers.map(({ manifest, sender }) => this.backend.confirm(manifest, sender)));
        return this.weights;
      } catch (error) {
        // The source died, went on, or says what makes no sense. What is held stays; the next offer is another one.
        if (!hasCode(error, "MUSTER_ERR_PEER_GONE") || this.#ending.signal.aborted) throw error;
        this.metrics.recordError("source");
        watch.blame(error);
        if (performance.now() > endMs) throw watch.late();
        await this.#pause(200);
      }
    }
  }

  /** Whoever was frozen until another process got its rank must not say under that rank what it holds. */
  async #refuseLost(): Promise<void> {
    try {
      await this.#calls.getOnce("/heartbeat", this.#life(), { endMs: performance.now() + lifeMs });
    } catch (error) {
      const status = error instanceof MusterError ? error.params.status : undefined;
      if (status !== 409) return;
      this.isRegistered = false;
      throw error;
    }
  }

  async #register(port: number): Promise<void> {
    const { worldSize, ip = "127.0.0.1", deviceId, metadata = {} } = this.#options;
    const { rank } = await this.#calls.post<{ rank: number }>("/register", {
      ...{ role_name: this.role, rank: this.rank, world_size: worldSize ?? null, ip, port },
      ...{ device_id: deviceId ?? null, metadata, incarnation: this.#incarnation },
    });
    this.rank = rank;
    this.backend.nodeId = this.nodeId;
    this.isRegistered = true;
  }

  async #registerAgain(port: number): Promise<void> {
    try {
      await this.#register(port);
    } catch {
      this.metrics.recordError("register");
      this.isRegistered = false;
    }
  }

  #life() {
    return { role: this.role, rank: this.rank ?? 0, incarnation: this.#incarnation };
  }

  async #beat(port: number): Promise<void> {
    const intervalMs = (this.#options.heartbeatIntervalSeconds ?? 5) * 1_000;
    while (await this.#pause(intervalMs * (0.8 + Math.random() / 5))) {
      try {
        // One that is lost on its way must not keep the next one waiting.
        const endMs = performance.now() + Math.max(intervalMs, lifeMs);
        await this.#calls.getOnce("/heartbeat", this.#life(), { endMs });
      } catch (error) {
        // Unknown because it left: it must not come back.
        if (this.#isLeaving || this.#ending.signal.aborted) return;
        this.metrics.recordError("heartbeat");
        const status = error instanceof MusterError ? error.params.status : undefined;
        // Forgotten: the coordinator began empty. With 409 another process has the rank, and this one must not act under it.
        if (status === 404) await this.#registerAgain(port);
        if (status === 409) this.isRegistered = false;
      }
    }
  }

  /** One after the other: each has a version of its own. */
  #update(roles: readonly string[], tensors: TensorDict, asked?: number): Promise<UpdateResult> {
    const updated = this.#updating.then(() => this.#published(roles, tensors, asked));
    this.#updating = updated.catch(() => {});
    return updated;
  }

  async #published(roles: readonly string[], tensors: TensorDict, asked?: number): Promise<UpdateResult> {
    const { pp_rank: stage = 0, pp_size: ppSize = 1 } = this.#options.metadata ?? {};
    const groups = roles.map((role) => `${role}/pp_${stage}`);
    const version = await this.#versionFor(groups, asked);
    // A key is used once: under that of an update before, its bytes would be served no more.
    const key = `weights/${stage}/${version}/${this.#incarnation}/${++this.#keys}`;
    const { made, manifest } = this.backend.publish(key, tensors);
    const offer = {
      ...{ version, sender: this.nodeId, incarnation: this.#incarnation },
      manifest: { ...manifest, pp_size: ppSize, quantization_config: this.#options.quantizationConfig ?? null },
    };
    let offered = 0;
    try {
      for (const group_name of groups) {
        await this.#calls.post("/offer_weights", { group_name, ...offer });
        offered++;
      }
    } finally {
      if (offered > 0) this.#keep(key, version);
      // Nobody heard of it, so it must not stay in memory.
      else this.backend.withdraw(key);
    }
    return this.#untilHeld(made, roles, { version, digest: digestOf([manifest]) });
  }

  /** The version asked for, or the next one of all groups. @throws MUSTER_ERR_VERSION_OFFERED before anything is offered */
  async #versionFor(groups: readonly string[], asked: number | undefined): Promise<number> {
    const offers = await Promise.all(
      groups.map((group_name) => this.#calls.get<Offer>("/weight_offer", { group_name })),
    );
    const newest = offers.map((offer) => offer.version ?? 0);
    if (asked === undefined) return Math.max(this.#version, ...newest) + 1;
    const taken = offers.findIndex((offer) => offer.version !== null && offer.version >= asked);
    if (taken < 0) return asked;
    throw errors.VersionOffered({ version: asked, newest: newest[taken] ?? 0, group: groups[taken] ?? "" });
  }

  /** What is offered is served until the second version after it: whoever still reads the one before may end. */
  #keep(key: string, version: number): void {
    this.#version = version;
    const kept = [...this.#offered, key];
    for (const old of kept.slice(0, -2)) this.backend.withdraw(old);
    this.#offered = kept.slice(-2);
  }

  async #untilHeld(
    { held }: Package,
    roles: readonly string[],
    what: { readonly version: number; readonly digest: string },
  ): Promise<UpdateResult> {
    const endMs = performance.now() + this.#timeoutMs;
    let living: ReadonlySet<string> = new Set();
    for (let round = 0; ; round++) {
      // A coordinator that is away comes back with the same members; bytes do not pass it.
      if (round % 10 === 0) living = await this.#unlessAway(() => this.backend.living(), living);
      const missing = [...living].filter((id) => roles.includes(id.slice(0, id.lastIndexOf("_"))) && !held.has(id));
      const isOver = missing.length === 0 || performance.now() > endMs || this.#ending.signal.aborted;
      if (isOver || (round % 10 === 0 && (await this.#isBehind(roles, what.version))))
        return { ...what, held: [...held].sort(), missing: missing.sort() };
      await this.#pause(50);
    }
  }

  /**
   * True when another stage of the pipeline offers a newer version. Whoever joins between the two sees that one, and waits for this stage to offer it,
   * too: nobody takes the older version any more.
   */
  async #isBehind(roles: readonly string[], version: number): Promise<boolean> {
    const { pp_rank: mine = 0, pp_size: ppSize = 1 } = this.#options.metadata ?? {};
    const others = Array.from({ length: Number(ppSize) }, (_, stage) => stage).filter((stage) => stage !== mine);
    const groups = roles.flatMap((role) => others.map((stage) => `${role}/pp_${stage}`));
    const ask = (group_name: string) => this.#calls.get<Offer>("/weight_offer", { group_name });
    const offers = await Promise.all(groups.map((group) => this.#unlessAway(() => ask(group), null)));
    return offers.some((offer) => (offer?.version ?? 0) > version);
  }

  async #unlessAway<T>(call: () => Promise<T>, otherwise: T): Promise<T> {
    try {
      return await call();
    } catch (error) {
      if (!hasCode(error, "MUSTER_ERR_COORDINATOR_GONE") || this.#ending.signal.aborted) throw error;
      this.metrics.recordError("coordinator");
      return otherwise;
    }
  }

  /** @returns False when the client ends meanwhile. */
  async #pause(ms: number): Promise<boolean> {
    const { signal } = this.#ending;
    await sleep(ms, undefined, { signal }).catch(() => {});
    return !signal.aborted;
  }
}

/** A client that has started. */
export function createClient(options: CheckpointClientOptions): Promise<CheckpointEngineClient> {
  return new CheckpointEngineClient(options).start();
}

function digestOf(manifests: readonly Manifest[]): string {
  const digests = manifests.flatMap(({ buffers }) => buffers.map(({ digest }) => digest)).join("");
  return `sha256:${createHash("sha256").update(digests).digest("hex")}`;
}

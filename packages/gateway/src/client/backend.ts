/** Tensors from process to process: point to point and one to all, announced through the coordinator and fetched from the sender. */
import { setTimeout as sleep } from "node:timers/promises";
import { messageOf } from "@muster/base";
import { shownHost } from "@muster/http";
import { errors } from "../errors.ts";
import type { MetricsCollector } from "../metrics/collector.ts";
import type { CoordinatorCalls } from "./coordinator-calls.ts";
import { checkedManifest, type Manifest } from "./manifest.ts";
import { Package, PackageServer, sha256Of } from "./package-server.ts";
import { pull, sayHeld } from "./pull.ts";
import type { TensorDict, TensorFusion } from "./tensors.ts";

/** What to send to whom. */
export interface SendRequest {
  readonly tensors: TensorDict;
  /** Rank in the group. */
  readonly dstRank: number;
  readonly groupName: string;
  readonly metadata?: Readonly<Record<string, unknown>>;
}

/** What to receive from whom. With names, anything else that arrives is an error. */
export interface RecvRequest {
  /** Rank in the group. */
  readonly srcRank: number;
  readonly groupName: string;
  readonly tensorNames?: readonly string[];
}

/** An operation that goes on. */
export class CommHandle<T> {
  readonly requestId = crypto.randomUUID();
  isComplete = false;
  error: unknown = null;
  readonly #result: Promise<T>;

  constructor(work: () => Promise<T>, metrics: MetricsCollector) {
    metrics.pendingOperations.inc();
    this.#result = work()
      .catch((error: unknown) => {
        this.error = error;
        metrics.recordError(error instanceof Error ? error.name : "unknown");
        throw error;
      })
      .finally(() => {
        this.isComplete = true;
        metrics.pendingOperations.dec();
      });
    // Whoever waits hears of it; `error` has it for everybody else.
    this.#result.catch(() => {});
  }

  /** The result. @throws What the operation failed with. */
  wait(): Promise<T> {
    return this.#result;
  }
}

/** What a backend works with. */
export interface BackendOptions {
  readonly calls: CoordinatorCalls;
  readonly metrics: MetricsCollector;
  readonly fusion: TensorFusion;
  readonly host: string;
  readonly port: number;
  readonly timeoutMs: number;
  /** Ends every wait. */
  readonly signal: AbortSignal;
}

interface Group {
  readonly members: readonly string[];
  readonly counts: Map<string, number>;
}

/** Longest time to tell a source that its package is held. */
const confirmMs = 10_000;

/** Bytes over TCP; what a Python process has in memory of the same host is read there. */
export class TcpBackend {
  nodeId = "";
  readonly #options: BackendOptions;
  readonly #server: PackageServer;
  readonly #groups = new Map<string, Group>();
  readonly #peers = new Map<string, string>();
  #address = "";

  constructor(options: BackendOptions) {
    this.#options = options;
    this.#server = new PackageServer(options.metrics);
  }

  /** Opens the server. @returns Its port. */
  async initProcessGroup(): Promise<number> {
    const { host, port } = this.#options;
    const opened = await this.#server.open(host, port);
    this.#address = `${shownHost(host)}:${opened}`;
    return opened;
  }

  /** Reaches a node at this address, and not at the one that it announces. */
  registerPeer(nodeId: string, address: string): void {
    this.#peers.set(nodeId, address);
  }

  /** A group of node ids in rank order. One that is formed again needs another name. @throws MUSTER_ERR_COMM_GROUP */
  createGroup(groupName: string, members: readonly string[]): void {
    if (this.#groups.has(groupName)) throw errors.CommGroup({ group: groupName, reason: "is there already" });
    if (!members.includes(this.nodeId)) throw errors.CommGroup({ group: groupName, reason: `has no ${this.nodeId}` });
    this.#groups.set(groupName, { members, counts: new Map() });
  }

  /** Forgets a group. */
  destroyGroup(groupName: string): void {
    this.#groups.delete(groupName);
  }

  /** Sends; complete when the receiver holds everything. */
  send({ tensors, dstRank, groupName, metadata = {} }: SendRequest): CommHandle<void> {
    const group = this.#group(groupName);
    const target = memberOf(group, groupName, dstRank);
    const key = nextKey(groupName, group, `${this.nodeId}>${target}`);
    return this.#started(() => this.#give({ key, groupName, tensors, metadata }, [target]));
  }

  /** Receives. */
  recv({ srcRank, groupName, tensorNames }: RecvRequest): CommHandle<TensorDict> {
    const group = this.#group(groupName);
    const source = memberOf(group, groupName, srcRank);
    const key = nextKey(groupName, group, `${source}>${this.nodeId}`);
    return this.#started(() => this.#take(key, source, tensorNames));
  }

  /** From one to all others of the group. @returns The tensors on every rank. */
  broadcast(tensors: TensorDict, srcRank: number, groupName: string): Promise<TensorDict> {
    return this.broadcastAsync(tensors, srcRank, groupName).wait();
  }

  /** The same, with a handle. */
  broadcastAsync(tensors: TensorDict, srcRank: number, groupName: string): CommHandle<TensorDict> {
    const group = this.#group(groupName);
    const source = memberOf(group, groupName, srcRank);
    const key = nextKey(groupName, group, `${source}>*`);
    if (source !== this.nodeId) return this.#started(() => this.#take(key, source));
    const others = group.members.filter((member) => member !== source);
    return this.#started(() => this.#give({ key, groupName, tensors, metadata: {} }, others).then(() => tensors));
  }

  /** Serves tensors under a key. */
  publish(key: string, tensors: TensorDict): { readonly made: Package; readonly manifest: Manifest } {
    const made = new Package(this.#options.fusion.buffersOf(tensors));
    this.#server.add(key, made);
    const buffers = made.buffers.map(({ buffer, rows }) => ({
      ...{ bytes: buffer.byteLength, digest: sha256Of(buffer), tensors: rows },
    }));
    return { made, manifest: { key, secret: made.secret, address: this.#address, buffers, memory: null } };
  }

  /** Serves a key no more. */
  withdraw(key: string): void {
    this.#server.remove(key);
  }

  /**
   * The tensors of a manifest, verified.
   *
   * @param limitMs - Longest time; default that of the backend.
   * @throws MUSTER_ERR_PEER_GONE
   */
  async fetch(manifest: Manifest, source: string, limitMs = this.#options.timeoutMs): Promise<TensorDict> {
    const buffers = await pull(manifest, this.#pullOptions(source, limitMs));
    const { fusion } = this.#options;
    const parts = buffers.map((buffer, i) => fusion.unfuse({ buffer, rows: manifest.buffers[i]?.tensors ?? [] }));
    return Object.assign({}, ...parts);
  }

  /** Tells a source that its package is held here. */
  confirm(manifest: Manifest, source: string): Promise<boolean> {
    return sayHeld(manifest, this.nodeId, this.#pullOptions(source, confirmMs));
  }

  /** Ids of all living nodes. */
  async living(): Promise<ReadonlySet<string>> {
    const { nodes } = await this.#options.calls.get<{ nodes: Record<string, Record<string, unknown>> }>("/topology");
    return new Set(
      Object.entries(nodes).flatMap(([role, ranks]) => Object.keys(ranks).map((rank) => `${role}_${rank}`)),
    );
  }

  /** Ends every transfer. */
  close(): Promise<void> {
    return this.#server.close();
  }

  #pullOptions(source: string, limitMs: number) {
    const { metrics, signal } = this.#options;
    const limit = AbortSignal.any([signal, AbortSignal.timeout(Math.max(1, Math.ceil(limitMs)))]);
    return { metrics, signal: limit, address: this.#peers.get(source) };
  }

  #started<T>(work: () => Promise<T>): CommHandle<T> {
    return new CommHandle(work, this.#options.metrics);
  }

  #group(name: string): Group {
    const group = this.#groups.get(name);
    if (group === undefined) throw errors.CommGroup({ group: name, reason: "is unknown; create it first" });
    return group;
  }

  async #give(
    sent: { readonly key: string; readonly groupName: string; readonly tensors: TensorDict; readonly metadata: object },
    receivers: readonly string[],
  ): Promise<void> {
    const { calls } = this.#options;
    const { made, manifest } = this.publish(sent.key, sent.tensors);
    const all = Object.entries(sent.tensors);
    try {
      await calls.post("/send_weight_meta", {
        ...{ update_id: sent.key, sender: this.nodeId, group_name: sent.groupName, names: all.map(([name]) => name) },
        ...{ dtypes: all.map(([, { dtype }]) => dtype), shapes: all.map(([, { shape }]) => shape) },
        metadata: { ...sent.metadata, manifest },
      });
      await this.#untilHeld(made, receivers);
      await calls.get("/clear_weight_meta", { update_id: sent.key });
    } catch (error) {
      await this.#abandon(sent.key);
      throw error;
    } finally {
      this.withdraw(sent.key);
    }
  }

  /** Whoever comes late to what failed hears that it is over, and the coordinator keeps nothing of it. */
  async #abandon(key: string): Promise<void> {
    try {
      await this.#options.calls.getOnce("/clear_weight_meta", { update_id: key });
    } catch {
      // It ends there by itself when nobody adds to it.
      this.#options.metrics.recordError("clear");
    }
  }

  async #untilHeld({ held }: Package, receivers: readonly string[]): Promise<void> {
    const { timeoutMs, signal } = this.#options;
    const endMs = performance.now() + timeoutMs;
    for (let round = 0; ; round++) {
      const missing = receivers.filter((id) => !held.has(id));
      if (missing.length === 0) return;
      const living = round % 20 === 0 ? await this.living() : null;
      const dead = living === null ? [] : missing.filter((id) => !living.has(id) && !held.has(id));
      if (dead.length > 0)
        throw errors.PeerGone({ address: dead.join(", "), reason: "died before it held everything" });
      if (performance.now() > endMs)
        throw errors.PeerGone({ address: missing.join(", "), reason: `took not everything within ${timeoutMs} ms` });
      await sleep(50, undefined, { signal });
    }
  }

  async #take(key: string, source: string, names?: readonly string[]): Promise<TensorDict> {
    const { calls, timeoutMs } = this.#options;
    const endMs = performance.now() + timeoutMs;
    for (;;) {
      const leftS = Math.max(0.1, Math.min(20, (endMs - performance.now()) / 1_000));
      const query = { update_id: key, index: 0, wait_timeout_s: leftS.toFixed(3) };
      const [entry] = await calls.get<readonly { metadata?: { manifest?: unknown } }[]>("/recv_weight_meta", query);
      if (entry !== undefined) return this.#received(checkedManifest(entry.metadata?.manifest, source), source, names);
      if (!(await this.living()).has(source)) throw errors.PeerGone({ address: source, reason: "is not there" });
      if (performance.now() > endMs)
        throw errors.PeerGone({ address: source, reason: `sent nothing within ${timeoutMs} ms` });
    }
  }

  async #received(manifest: Manifest, source: string, names?: readonly string[]): Promise<TensorDict> {
    const tensors = await this.fetch(manifest, source);
    const arrived = Object.keys(tensors);
    if (names !== undefined && (names.length !== arrived.length || names.some((name) => !Object.hasOwn(tensors, name))))
      throw errors.PeerGone({ address: source, reason: `sent other tensors than expected: ${messageOf(arrived)}` });
    await this.confirm(manifest, source);
    return tensors;
  }
}

function nextKey(name: string, { counts }: Group, pair: string): string {
  const count = (counts.get(pair) ?? 0) + 1;
  counts.set(pair, count);
  return `${name}/${pair}/${count}`;
}

function memberOf({ members }: Group, group: string, rank: number): string {
  const member = members[rank];
  if (member === undefined) throw errors.CommGroup({ group, reason: `has no rank ${rank}` });
  return member;
}

/**
 * What a replica measures of the bytes that it moves: how many, how long, and how it ended, by operation. The names are those of the
 * checkpoint service that Relax describes (`dcs_*`), so that its dashboards go on working.
 */
import type { Clock, Metrics } from "@muster/base";
import type { GradientMesh, PullProgress } from "@muster/collectives";
import type { Environment } from "./environment.ts";
import { planeLog, showPlane } from "./plane-meters.ts";
import type { Ports } from "./ports.ts";

/** What bytes are moved for. */
type Operation = "publish" | "pull" | "allreduce" | "save" | "load";

/** How many bytes were moved, and for whom it may end early. */
interface Moved<T> {
  readonly bytes: (value: T) => number;
  readonly signal?: AbortSignal | undefined;
}

/** Measures operations. */
export interface TransferMeters {
  measure<T>(operation: Operation, moved: Moved<T>, work: () => Promise<T>): Promise<T>;
}

/** Family of the metrics, name of the counter of bytes, and what it counts. */
const families = {
  publish: ["send", "dcs_bytes_sent_total", "Bytes of weight versions that were published for others."],
  pull: ["recv", "dcs_bytes_received_total", "Bytes of weight versions that were pulled or mapped."],
  allreduce: ["allreduce", "dcs_bytes_reduced_total", "Bytes of gradient sums."],
  save: ["save", "dcs_bytes_saved_total", "Bytes of checkpoints that were written."],
  load: ["load", "dcs_bytes_loaded_total", "Bytes of checkpoints that were read."],
} as const satisfies Record<Operation, readonly [family: string, bytes: string, help: string]>;

/** What the ports report to. */
type MeteredBy = Pick<Environment, "metrics" | "clock" | "logger">;

const seconds = [0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 60, 300] as const;

/** Makes the meters. */
export function transferMetersOn(metrics: Metrics, clock: Clock): TransferMeters {
  const errors = metrics.counter({
    name: "dcs_errors_total",
    help: "Operations of the data plane and of checkpoints that failed.",
    labels: ["operation"],
  });
  const pending = metrics.gauge({
    name: "dcs_pending_operations",
    help: "Operations of the data plane and of checkpoints in progress.",
    labels: ["operation"],
  });
  const running = new Map<Operation, number>();
  const enter = (operation: Operation, change: 1 | -1): void => {
    const count = (running.get(operation) ?? 0) + change;
    running.set(operation, count);
    pending.set(count, { operation });
  };
  const meters = new Map<Operation, ReturnType<typeof familyOn>>();
  const meterOf = (operation: Operation): ReturnType<typeof familyOn> => {
    const meter = meters.get(operation) ?? familyOn(metrics, operation);
    meters.set(operation, meter);
    return meter;
  };
  return {
    async measure(operation, { bytes, signal }, work) {
      const meter = meterOf(operation);
      const startedMs = clock.now();
      const ended = (outcome: "ok" | "failed" | "aborted"): void => {
        enter(operation, -1);
        meter.operations.add(1, { outcome });
        meter.latency.observe((clock.now() - startedMs) / 1000, { outcome });
      };
      enter(operation, 1);
      try {
        const value = await work();
        ended("ok");
        meter.bytes.add(bytes(value));
        return value;
      } catch (error) {
        ended(signal?.aborted ? "aborted" : "failed");
        if (!signal?.aborted) errors.add(1, { operation });
        throw error;
      }
    },
  };
}

function familyOn(metrics: Metrics, operation: Operation) {
  const [family, name, help] = families[operation];
  const labels = ["outcome"];
  return {
    bytes: metrics.counter({ name, help }),
    operations: metrics.counter({
      name: `dcs_${family}_operations_total`,
      help: `Operations of the kind ${operation}, by outcome: ok, failed or aborted.`,
      labels,
    }),
    latency: metrics.histogram({
      name: `dcs_${family}_latency_seconds`,
      help: `How long operations of the kind ${operation} took, by outcome.`,
      labels,
      buckets: seconds,
    }),
  };
}

/**
 * The same ports, measured: pulls, sums of gradients, checkpoints. A pull over the network also says once a second how far it is. A
 * version store is known by itself, so whoever publishes measures that.
 */
export function meteredPorts(ports: Ports, { metrics, clock, logger }: MeteredBy): Ports {
  const { measure } = transferMetersOn(metrics, clock);
  metrics.gauge({
    name: "dcs_active_connections",
    help: "Open connections of the data plane of this process, to processes of this host and of others.",
    read: () => ports.usage().connections,
  });
  metrics.gauge({
    name: "dcs_memory_buffer_usage_bytes",
    help: "Bytes of memory that the data plane of this process has mapped for versions, gradients and what arrives.",
    read: () => ports.usage().mappedBytes,
  });
  showPlane(metrics, () => ports.activity());
  const heard = planeLog(logger, clock);
  const arriving = metrics.gauge({
    name: "dcs_recv_progress_ratio",
    help: "Share of the version that is being pulled over the network that has arrived; 1 when none is.",
  });
  const bytesOf = ({ bytes }: { readonly bytes: number }): number => bytes;
  const watched = (id: { readonly lineage: number; readonly version: number }) => ({
    onProgress: ({ bytes, totalBytes }: PullProgress): void => {
      arriving.set(bytes / totalBytes);
      logger.info({ ...id, bytes, totalBytes }, "weights are arriving");
    },
  });
  const pullMeasured = async <T extends { readonly bytes: number }>(
    signal: AbortSignal,
    pull: () => Promise<T>,
  ): Promise<T> => await measure("pull", { bytes: bytesOf, signal }, pull).finally(() => arriving.set(1));
  return {
    ...ports,
    network: (times) => ports.network(times, heard),
    pull: (options) => pullMeasured(options.signal, () => ports.pull({ ...options, ...watched(options.id) })),
    map: (options) => pullMeasured(options.signal, () => ports.map({ ...options, ...watched(options.id) })),
    gradientMesh: async (options) => {
      const bytes = (): number => options.shardElements * Float32Array.BYTES_PER_ELEMENT;
      const mesh = await ports.gradientMesh(options);
      return meteredMesh(mesh, (signal, reduce) => measure("allreduce", { bytes, signal }, reduce));
    },
    checkpointStore: async (options) => {
      const store = await ports.checkpointStore(options);
      return {
        save: (content, signal) =>
          measure("save", { bytes: bytesOf, signal }, async () => await store.save(content, signal)),
        saveShards: (content, shards, signal) =>
          measure("save", { bytes: bytesOf, signal }, async () => await store.saveShards(content, shards, signal)),
        seal: (content, of, signal) => store.seal(content, of, signal),
        isOpen: (content, of) => store.isOpen(content, of),
        list: () => store.list(),
        latest: () => store.latest(),
        load: (name, signal) => store.load(name, signal),
        pin: (name) => store.pin(name),
        spare: (version) => store.spare(version),
        supersede: (copies) => store.supersede(copies),
        sweep: () => store.sweep(),
      };
    },
    loadCheckpoint: (path, signal) =>
      measure(
        "load",
        { bytes: ({ sections }) => sections.reduce((sum, section) => sum + section.bytes.byteLength, 0) },
        () => ports.loadCheckpoint(path, signal),
      ),
    loadCheckpointParts: (path, choose, signal) =>
      measure("load", { bytes: ({ bytes }) => bytes, signal }, () => ports.loadCheckpointParts(path, choose, signal)),
  };
}

function meteredMesh(
  mesh: GradientMesh,
  measured: (signal: AbortSignal, reduce: () => Promise<Float32Array>) => Promise<Float32Array>,
): GradientMesh {
  const { epoch, rank, worldSize } = mesh;
  return {
    epoch,
    rank,
    worldSize,
    shard: (index, window) => mesh.shard(index, window),
    result: (window) => mesh.result(window),
    reduce: (options) => measured(options.signal, () => mesh.reduce(options)),
    abort: (reason) => mesh.abort(reason),
    close: () => mesh.close(),
  };
}

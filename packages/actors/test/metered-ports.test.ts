import { type Clock, silentLogger } from "@muster/base";
import { networkDefaults } from "@muster/protocol/internal";
import { manualClock } from "@muster/runtime/internal";
import { createMetrics } from "@muster/runtime/metrics";
import { beforeEach, describe, expect, it } from "vitest";
import type { Ports } from "../src/index.ts";
import { meteredPorts, transferMetersOn } from "../src/metered-ports.ts";
import { ports as hostPorts } from "./support/roles.ts";

type PullOptions = Parameters<Ports["pull"]>[0];

const result = { bytes: 300, durationMs: 1, via: "tcp", from: "tcp:10.0.0.1:1", wireBytes: 300, base: null } as const;
const wanted: Omit<PullOptions, "signal"> = {
  ...{ key: new Uint8Array(32), job: "j", member: "m", holders: [], id: { lineage: 0, version: 7 }, sections: [] },
  ...{ deadlineMs: 1000, into: {} },
};

let clock: Clock & { advance(ms: number): void };
let metrics: ReturnType<typeof createMetrics>;
let logged: object[];

/** The ports, of which the pull does what the test says. */
const portsWith = (pull: Ports["pull"]): Ports =>
  meteredPorts(
    { ...hostPorts, pull },
    { metrics, clock, logger: { ...silentLogger, info: (fields: object) => void logged.push(fields) } },
  );

/** Lines of the metrics page that begin so. */
const shown = async (start: string): Promise<string[]> =>
  (await metrics.render()).split("\n").filter((line) => line.startsWith(start));

beforeEach(() => {
  clock = manualClock();
  metrics = createMetrics();
  logged = [];
});

describe("a pull through metered ports", () => {
  it("counts its bytes, its time and its outcome", async () => {
    const ports = portsWith(async () => {
      clock.advance(2_000);
      return result;
    });
    await ports.pull({ ...wanted, signal: new AbortController().signal });
    expect(await shown("dcs_bytes_received_total")).toEqual(["dcs_bytes_received_total 300"]);
    expect(await shown("dcs_recv_operations_total")).toEqual(['dcs_recv_operations_total{outcome="ok"} 1']);
    expect(await shown("dcs_recv_latency_seconds_sum")).toEqual(['dcs_recv_latency_seconds_sum{outcome="ok"} 2']);
    expect(await shown("dcs_pending_operations")).toEqual(['dcs_pending_operations{operation="pull"} 0']);
  });

  it("counts a failure as one, and what was aborted as no error", async () => {
    const ports = portsWith(async () => {
      throw new Error("nobody there");
    });
    const aborted = new AbortController();
    aborted.abort();
    await expect(ports.pull({ ...wanted, signal: new AbortController().signal })).rejects.toThrow("nobody there");
    await expect(ports.pull({ ...wanted, signal: aborted.signal })).rejects.toThrow("nobody there");
    expect(await shown("dcs_errors_total")).toEqual(['dcs_errors_total{operation="pull"} 1']);
    expect(await shown("dcs_recv_operations_total")).toEqual([
      'dcs_recv_operations_total{outcome="failed"} 1',
      'dcs_recv_operations_total{outcome="aborted"} 1',
    ]);
    expect(await shown("dcs_bytes_received_total")).toEqual(["dcs_bytes_received_total 0"]);
  });

  it("says how far it is, on the page and in the log", async () => {
    let during: readonly string[] = [];
    const ports = portsWith(async ({ onProgress }) => {
      onProgress?.({ bytes: 75, totalBytes: 300 });
      during = [...(await shown("dcs_recv_progress_ratio")), ...(await shown("dcs_pending_operations"))];
      return result;
    });
    await ports.pull({ ...wanted, signal: new AbortController().signal });
    expect(during).toEqual(["dcs_recv_progress_ratio 0.25", 'dcs_pending_operations{operation="pull"} 1']);
    expect(logged).toEqual([{ lineage: 0, version: 7, bytes: 75, totalBytes: 300 }]);
    expect(await shown("dcs_recv_progress_ratio")).toEqual(["dcs_recv_progress_ratio 1"]);
  });
});

describe("what the data plane has in use", () => {
  it("is asked for when the page is read, and not before", async () => {
    let connections = 2;
    meteredPorts(
      { ...hostPorts, usage: () => ({ connections, mappedBytes: connections * 1000 }) },
      { metrics, clock, logger: silentLogger },
    );
    expect(await shown("dcs_active_connections")).toEqual(["dcs_active_connections 2"]);
    connections = 5;
    expect(await shown("dcs_active_connections")).toEqual(["dcs_active_connections 5"]);
    expect(await shown("dcs_memory_buffer_usage_bytes")).toEqual(["dcs_memory_buffer_usage_bytes 5000"]);
  });
});

describe("what happens in the data plane", () => {
  const peers = [{ peer: "10.0.0.7", sent: 12, received: 34 }];
  const events = { retry: 0, "fail-over": 2, stall: 0, refused: 0, evicted: 0, "host-lost": 1, "delta-lost": 0 };

  it("is on the page, as it is when the page is read", async () => {
    let opened = 3;
    const activity: Ports["activity"] = () => ({ opened, accepted: 4, events, peers });
    meteredPorts({ ...hostPorts, activity }, { metrics, clock, logger: silentLogger });
    await shown("muster_plane");
    opened = 5;
    expect(await shown("muster_plane_connections_total")).toEqual([
      'muster_plane_connections_total{side="opened"} 5',
      'muster_plane_connections_total{side="accepted"} 4',
    ]);
    expect(await shown('muster_plane_events_total{event="fail-over"}')).toEqual([
      'muster_plane_events_total{event="fail-over"} 2',
    ]);
    expect(await shown("muster_plane_peer_bytes_total")).toEqual([
      'muster_plane_peer_bytes_total{peer="10.0.0.7",direction="sent"} 12',
      'muster_plane_peer_bytes_total{peer="10.0.0.7",direction="received"} 34',
    ]);
  });

  it("comes into the log at a bounded rate, and a line says how many are missing", () => {
    let tell: Parameters<Ports["network"]>[1];
    const lines: { level: string; fields: object; text: string }[] = [];
    const line = (level: string) => (fields: object, text: string) => void lines.push({ level, fields, text });
    const ports = meteredPorts(
      {
        ...hostPorts,
        network: (_, heard) => {
          tell = heard;
        },
      },
      { metrics, clock, logger: { ...silentLogger, info: line("info"), warn: line("warn") } },
    );
    ports.network(networkDefaults);
    const refused = { event: "refused", peer: "10.0.0.8", text: "another key" } as const;
    tell?.([{ event: "host-lost", peer: "10.0.0.7", text: "silent for 1000 ms" }], 0);
    tell?.(Array(100).fill(refused), 7);
    expect(lines.length).toBe(30);
    expect(lines[0]).toEqual({
      level: "warn",
      fields: { event: "host-lost", peer: "10.0.0.7", reason: "silent for 1000 ms" },
      text: "a host of the mesh is lost",
    });
    clock.advance(1_000);
    tell?.([refused], 0);
    const { event, peer, text: reason } = refused;
    const leftOut = 100 - 29;
    expect(lines.at(-1)).toEqual({
      level: "info",
      fields: { event, peer, reason, leftOut },
      text: "a caller was refused",
    });
    expect(lines[1]?.fields).toEqual({ event, peer, reason, leftOut: 7 });
  });
});

describe("meters made twice on one page", () => {
  it("count together", async () => {
    for (const meters of [transferMetersOn(metrics, clock), transferMetersOn(metrics, clock)])
      await meters.measure("publish", { bytes: () => 10 }, async () => {});
    expect(await shown("dcs_bytes_sent_total")).toEqual(["dcs_bytes_sent_total 20"]);
  });
});

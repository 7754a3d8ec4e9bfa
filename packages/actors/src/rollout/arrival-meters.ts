/** What a rollout replica measures of the weights that come to it. */
import type { Metrics } from "@muster/base";

/** How a version came: read where it lies on this host, as what changed, whole over the network, or to each process of the replica its own part. */
export type ArrivalWay = "memory" | "delta" | "whole" | "parts";

/** Meters of the weights that arrive. */
export interface ArrivalMeters {
  arrived(way: ArrivalWay, size: { readonly bytes: number; readonly wireBytes: number }): void;
}

/** Makes the meters. */
export function arrivalMetersOn(metrics: Metrics): ArrivalMeters {
  const versions = metrics.counter({
    name: "muster_weights_arrived_total",
    help: "Weight versions that arrived, by the way they came: memory, delta, whole or parts.",
    labels: ["way"],
  });
  const wire = metrics.counter({
    name: "muster_weights_wire_bytes_total",
    help: "Bytes of weights that crossed a network to this replica.",
  });
  const saved = metrics.counter({
    name: "muster_weights_saved_bytes_total",
    help: "Bytes of weights that did not cross the network because deltas did.",
  });
  return {
    arrived: (way, { bytes, wireBytes }) => {
      versions.add(1, { way });
      wire.add(wireBytes);
      if (way === "delta") saved.add(bytes - wireBytes);
    },
  };
}

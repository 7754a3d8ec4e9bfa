/** What happens in the data plane, as metrics and as lines of the log. */
import { Allowance, type Clock, type Logger, type Metrics, type Reading } from "@muster/base";
import type { DataPlaneActivity, DataPlaneEventKind, DataPlaneListener } from "@muster/collectives";

/** Shows the counters of the data plane when metrics are read. */
export function showPlane(metrics: Metrics, activity: () => DataPlaneActivity): void {
  metrics.counter({
    name: "muster_plane_connections_total",
    help: "Connections of the data plane, by who began them: opened here, or accepted from others.",
    labels: ["side"],
    read: () => {
      const { opened, accepted } = activity();
      return [
        { value: opened, labels: { side: "opened" } },
        { value: accepted, labels: { side: "accepted" } },
      ];
    },
  });
  metrics.counter({
    name: "muster_plane_events_total",
    help: "What happened in the data plane: retry, fail-over, stall, refused, evicted, host-lost, delta-lost.",
    labels: ["event"],
    read: () => Object.entries(activity().events).map(([event, value]): Reading => ({ value, labels: { event } })),
  });
  metrics.counter({
    name: "muster_plane_peer_bytes_total",
    help: "Bytes that crossed sockets of the data plane, by host and direction. Shared memory crosses none.",
    labels: ["peer", "direction"],
    read: () =>
      activity().peers.flatMap(({ peer, sent, received }): Reading[] => [
        { value: sent, labels: { peer, direction: "sent" } },
        { value: received, labels: { peer, direction: "received" } },
      ]),
  });
}

const says = {
  retry: "holders that broke off are asked once more",
  "fail-over": "a holder failed, the next is asked",
  stall: "another end of the data plane is silent",
  refused: "a caller was refused",
  evicted: "a caller that had proved nothing gave way to another",
  "host-lost": "a host of the mesh is lost",
  "delta-lost": "a delta did not fit, the bytes come whole",
} as const satisfies Record<DataPlaneEventKind, string>;

/** Lines at once, and each second after that. */
const rate = { burst: 30, perSecond: 1 };

/** Writes what happens into the log, at a bounded rate. A line says how many before it were left out. */
export function planeLog(logger: Logger, clock: Clock): DataPlaneListener {
  const allowance = new Allowance(rate);
  let leftOut = 0;
  return (events, forgotten) => {
    leftOut += forgotten;
    for (const { event, peer, text } of events) {
      if (!allowance.take(clock.now())) {
        leftOut += 1;
        continue;
      }
      const fields = { event, peer, reason: text, ...(leftOut > 0 && { leftOut }) };
      leftOut = 0;
      if (event === "host-lost") logger.warn(fields, says[event]);
      else logger.info(fields, says[event]);
    }
  };
}

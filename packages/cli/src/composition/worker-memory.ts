/** Memory that workers share with this process. */
import { openSharedRegion } from "@muster/collectives";
import type { OpenSharedMemory } from "@muster/engine/worker";

/** Sealed memory of the data plane, which a program of the same user opens as a file of this process. @throws MUSTER_ERR_NATIVE_MISSING, MUSTER_ERR_NATIVE_FAILED */
export const workerMemory: OpenSharedMemory = (name, bytes) => {
  const region = openSharedRegion(`muster-worker-${name}`, bytes);
  return {
    path: `/proc/${process.pid}/fd/${region.fd}`,
    write: (from, at) => region.write(from, at),
    read: (into, at) => region.read(into, at),
    hide: () => region.hide(),
    close: async () => region.close(),
  };
};

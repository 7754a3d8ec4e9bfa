/** What this machine can do for the data plane. */
import { native } from "./native.ts";

/** What the data plane found on this machine. */
export interface NativeCapabilities {
  /** True when processes can share sealed memory; without it only `tcp` holders can be pulled from and no mesh can form. */
  readonly sharedMemory: boolean;
  /** Why there is no shared memory. */
  readonly reason?: string;
  readonly tcp: true;
  /** Version of the addon. */
  readonly version: string;
}

/** Asks the addon what works here. @throws MUSTER_ERR_NATIVE_MISSING when it is not built. */
export function nativeCapabilities(): NativeCapabilities {
  const { sharedMemory, reason, version } = native().capabilities();
  return { sharedMemory, tcp: true, version, ...(reason === null ? {} : { reason }) };
}

/** What this machine can do for the data plane. */
import { glooPath, native } from "./native.ts";

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

/** Whether groups can use Gloo. */
export interface GlooCapabilities {
  readonly path: string;
  /** Of Gloo, when it can be used. */
  readonly version?: string;
  /** Why it cannot be used. */
  readonly reason?: string;
}

/** Opens the transport over Gloo, if it was built. @throws MUSTER_ERR_NATIVE_MISSING when the addon is not. */
export function glooCapabilities(path: string = glooPath()): GlooCapabilities {
  const { version, reason } = native().describeGloo(path);
  return { path, ...(version === null ? {} : { version }), ...(reason === null ? {} : { reason }) };
}

/** What the data plane of this process has in use now. */
export interface DataPlaneUsage {
  /** Open connections to other processes, of this host and others. */
  readonly connections: number;
  /** Bytes of memory that it has mapped: slots of versions, mapped versions, meshes, groups, what arrives. Some of it may not be touched yet. */
  readonly mappedBytes: number;
}

/** Asks the addon what is in use. @throws MUSTER_ERR_NATIVE_MISSING when it is not built. */
export function dataPlaneUsage(): DataPlaneUsage {
  return native().usage();
}

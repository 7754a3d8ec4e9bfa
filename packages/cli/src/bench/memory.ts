/** How much memory a measurement needs, so that it is left out before the kernel ends one of its processes. Pure. */
import { manyTensors } from "./allreduce/same-host.ts";
import { bytesText } from "./report.ts";

/** Which measurement. */
export interface Footprint {
  readonly world: number;
  readonly bytes: number;
  /** Whether peers are measured beside it, while our processes keep their memory. */
  readonly peers: boolean;
}

/** Largest buffer that the limit of the host is measured with. */
const limitBytesMax = 256 * 2 ** 20;
/** What a process takes besides its buffers: Node, or Python with torch. */
const processBytes = 128 * 2 ** 20;

/** Most bytes that the measurement of versions takes at a time: the source's own and three slots, and each receiver's own. */
export function weightsBytes({ world, bytes, peers }: Footprint): number {
  const ours = (world - 1 + 4) * bytes + world * processBytes;
  return ours + Math.max(world * Math.min(bytes, limitBytesMax), peers ? world * (bytes + processBytes) : 0);
}

/** The same down a chain of hosts: the source's own and two slots, and two slots of each other host. */
export function hostsBytes({ world, bytes, peers }: Footprint): number {
  const ours = (2 * world + 1) * bytes + world * processBytes;
  return ours + (peers ? world * (bytes + processBytes) : 0);
}

/**
 * The same for sums: each rank's input and own memory, three buffers of the host; peers send from one buffer to another. Ours have room for the
 * many tensors that are measured at the end, whatever the size.
 */
export function allReduceBytes({ world, bytes, peers }: Footprint): number {
  const ours = (2 * world + 3) * Math.max(bytes, manyTensors.bytes) + world * processBytes;
  return ours + Math.max((world + 1) * Math.min(bytes, limitBytesMax), peers ? world * (2 * bytes + processBytes) : 0);
}

/** Why a measurement has to be left out on a machine with so much memory to spare; `null` when it fits. */
export function tooLarge({ world, bytes }: Footprint, neededBytes: number, availableBytes: number): string | null {
  if (neededBytes <= 0.9 * availableBytes) return null;
  const figures = `it takes about ${bytesText(neededBytes)} of memory, and ${bytesText(availableBytes)} are available`;
  return `W=${world}, ${bytesText(bytes)} was left out: ${figures}`;
}

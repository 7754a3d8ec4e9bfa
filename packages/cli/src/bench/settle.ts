/** Lets a virtual machine come to rest between two measurements. */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";

const balloons = "/sys/bus/virtio/drivers/virtio_balloon";
/** `VIRTIO_BALLOON_F_REPORTING` (virtio 1.2, section 5.5.3): place of its digit in the list of features. */
const reportingBit = 5;
/** Linux tells the host two seconds after memory was freed, and again two seconds later when there is more. */
const reportedMs = 5_000;
/** Less is handed back before anybody notices. */
const freedBytesMin = 128 * 2 ** 20;

/**
 * Waits until the host has taken back what ended processes freed: meanwhile it stops the cores for tens of milliseconds at a time, which would count
 * against whatever runs then. Returns at once where memory is not handed back, and when it was little.
 *
 * @throws The reason of `signal`.
 */
export async function settle(freedBytes: number, signal: AbortSignal, folder: string = balloons): Promise<void> {
  if (freedBytes >= freedBytesMin && returnsMemory(folder))
    await delay(reportedMs, undefined, { signal }).catch(() => signal.throwIfAborted());
}

/** Whether this is a virtual machine that reports free memory to its host. @param folder Of the driver of balloons. */
export function returnsMemory(folder: string = balloons): boolean {
  if (!existsSync(folder)) return false;
  return readdirSync(folder)
    .filter((name) => name.startsWith("virtio"))
    .some((name) => readFileSync(join(folder, name, "features"), "utf8")[reportingBit] === "1");
}

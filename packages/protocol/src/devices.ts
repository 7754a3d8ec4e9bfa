/** Devices of a host that one process has for itself at a time: GPUs, as their driver names them. */
import { z } from "zod";

/** Most devices of a node. */
export const devicesMax = 256;

const pattern = /^(0|[1-9]\d{0,4}|(GPU|MIG)-[A-Za-z0-9/-]+)$/;

/** Schema of the name of a device: its number, or the name that its driver gives to it, such as `GPU-8932f937-…`. */
export const deviceSchema = z.string().max(64).regex(pattern);

/** Schema of devices that somebody has, each once. */
export const devicesSchema = z.array(deviceSchema).max(devicesMax);

/** A device that is there twice in a list; `null` when each is there once. Pure. */
export function doubledOf(devices: readonly string[]): string | null {
  return devices.find((device, i) => devices.indexOf(device) !== i) ?? null;
}

/** Whether a name says which device it is on whatever host; a number says it on one host only. Pure. */
export function isUniqueName(device: string): boolean {
  return /^(GPU|MIG)-/.test(device);
}

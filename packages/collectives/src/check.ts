/** Checks of what crosses into native code, where a wrong number would be a wrong address. */
import { errors } from "./errors.ts";

/** Longest wait that can be asked for: the timers of both sides take 31 bits. */
const timeoutMsMax = 2 ** 31 - 1;

/** Longest of job and member names; they travel in every handshake. */
const nameBytesMax = 1024;

/**
 * A field of one of many is named by a function, so that names are made for what is wrong only.
 *
 * @throws MUSTER_ERR_NATIVE_OPTION_INVALID unless `value` is a whole number from `min` to `max`.
 */
export function checkWhole(
  field: string | (() => string),
  value: number,
  { min, max }: { readonly min: number; readonly max: number },
): void {
  if (Number.isSafeInteger(value) && value >= min && value <= max) return;
  const name = typeof field === "string" ? field : field();
  throw errors.NativeOptionInvalid({ field: name, value, fix: `give a whole number from ${min} to ${max}` });
}

/** @returns Whole milliseconds, rounded up. @throws MUSTER_ERR_NATIVE_OPTION_INVALID unless > 0 and below 2^31. */
export function checkTimeout(field: string, valueMs: number): number {
  const rounded = Math.ceil(valueMs);
  checkWhole(field, rounded, { min: 1, max: timeoutMsMax });
  return rounded;
}

/** @throws MUSTER_ERR_NATIVE_OPTION_INVALID for an empty or overlong name. */
export function checkName(field: string, value: string): void {
  if (value.length > 0 && Buffer.byteLength(value) <= nameBytesMax) return;
  throw errors.NativeOptionInvalid({ field, value, fix: `give a name of 1 to ${nameBytesMax} bytes` });
}

/** @throws MUSTER_ERR_NATIVE_OPTION_INVALID for a key that is no secret. */
export function checkKey(key: Uint8Array): void {
  if (key.byteLength >= 16) return;
  throw errors.NativeOptionInvalid({
    field: "key",
    value: `${key.byteLength} bytes long`,
    fix: "give at least 16 random bytes",
  });
}

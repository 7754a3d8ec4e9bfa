/** The native side of the device buffers that are open in this process. */
import { errors } from "../errors.ts";
import type { NativeOperand } from "../native-gpu.ts";

interface Handle {
  readonly memory: object;
  readonly bytes: number;
  /** Not on a shelf: others read what is there. */
  readonly writable: boolean;
}

const handles = new WeakMap<object, Handle>();

/** Remembers the native handle of a buffer. */
export function rememberBuffer(buffer: object, handle: Handle): void {
  handles.set(buffer, handle);
}

/** From now on nothing writes to the buffer. */
export function protectBuffer(buffer: object): void {
  const handle = handles.get(buffer);
  if (handle) handles.set(buffer, { ...handle, writable: false });
}

/** `bytes` of a buffer from `offset` on. @throws MUSTER_ERR_NATIVE_OPTION_INVALID for what is no buffer, or reaches past its end. */
export function operandOf(field: string, buffer: object, offset: number, bytes: number): NativeOperand {
  const handle = handles.get(buffer);
  if (!handle)
    throw errors.NativeOptionInvalid({ field, value: "no device buffer", fix: "give what Gpu.allocate returned" });
  if (Number.isSafeInteger(offset) && offset >= 0 && bytes <= handle.bytes - offset)
    return { memory: handle.memory, offset };
  throw errors.NativeOptionInvalid({
    field,
    value: `${bytes} bytes from ${offset} on`,
    fix: `stay within the buffer's ${handle.bytes} bytes`,
  });
}

/** As `operandOf`, of a buffer that will be written. @throws MUSTER_ERR_NATIVE_OPTION_INVALID also for a version on a shelf. */
export function targetOf(field: string, buffer: object, offset: number, bytes: number): NativeOperand {
  const operand = operandOf(field, buffer, offset, bytes);
  if (handles.get(buffer)?.writable) return operand;
  throw errors.NativeOptionInvalid({
    field,
    value: "a version on a shelf",
    fix: "write to a buffer of your own: a version never changes",
  });
}

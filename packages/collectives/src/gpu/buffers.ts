/** The native side of the device buffers that are open in this process. */
import { errors } from "../errors.ts";
import type { NativeOperand } from "../native-gpu.ts";

const handles = new WeakMap<object, { readonly memory: object; readonly bytes: number }>();

/** Remembers the native handle of a buffer. */
export function rememberBuffer(buffer: object, handle: { readonly memory: object; readonly bytes: number }): void {
  handles.set(buffer, handle);
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

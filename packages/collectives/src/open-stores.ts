/** The native side of the version stores that are open in this process. */
import { errors } from "./errors.ts";

const handles = new WeakMap<object, object>();

/** Remembers the native handle of a store. */
export function rememberStore(store: object, handle: object): void {
  handles.set(store, handle);
}

/** The native handle of a store. @throws MUSTER_ERR_NATIVE_OPTION_INVALID for a store that `openVersionStore` did not make. */
export function nativeStoreOf(store: object): object {
  const handle = handles.get(store);
  if (handle) return handle;
  throw errors.NativeOptionInvalid({
    field: "keepIn",
    value: "not an open store",
    fix: "give what openVersionStore returned",
  });
}

/** The native side of the version stores that are open in this process, and of the versions that are mapped. */
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

/** What a mapped version is on the native side. */
export interface MappedHandle {
  /** `NativeMapped.mapped` */
  readonly handle: object;
  readonly sections: readonly { readonly name: string; readonly bytes: number }[];
}

const mappings = new WeakMap<object, () => MappedHandle | null>();

/** Remembers the native side of a mapped version; `look` gives `null` once it was released. */
export function rememberMapped(version: object, look: () => MappedHandle | null): void {
  mappings.set(version, look);
}

/** The native side of a mapped version. @throws MUSTER_ERR_NATIVE_OPTION_INVALID for one that `mapVersion` did not make, or that was released. */
export function nativeMappedOf(version: object): MappedHandle {
  const look = mappings.get(version);
  const mapped = look?.();
  if (mapped) return mapped;
  throw errors.NativeOptionInvalid({
    field: "mapped",
    value: look ? "released" : "not a mapped version",
    fix: "give what mapVersion returned, before its release",
  });
}

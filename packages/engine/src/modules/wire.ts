/**
 * What a sampler and the process of a module say to each other: frames as workers have them, and arrays of numbers in them as their bytes in base64, so
 * that no number changes on its way.
 */
import type { Generated } from "../engine.ts";
import type { WiredError } from "./wired-error.ts";

/** Longest frame, in bytes of JSON: 64 responses of 100,000 tokens. */
export const moduleFrameMax = 64 * 2 ** 20;

/** What a module is for. */
export type ModuleUse = "reward" | "generate";

const arrays = { i32: Int32Array, f32: Float32Array, f64: Float64Array, u8: Uint8Array } as const;

/** Arrays that travel. */
export interface Arrays {
  readonly i32: Int32Array;
  readonly f32: Float32Array;
  readonly f64: Float64Array;
  readonly u8: Uint8Array;
}
type ArrayName = keyof Arrays;

/** An array as it travels. */
export type Packed<N extends ArrayName> = Readonly<Record<N, string>>;

/** Packs an array. Pure. */
export function packed<N extends ArrayName>(name: N, array: Arrays[N]): Packed<N> {
  const { buffer, byteOffset, byteLength } = array;
  return { [name]: Buffer.from(buffer as ArrayBuffer, byteOffset, byteLength).toString("base64") } as Packed<N>;
}

/** An array from what travelled; what is no whole number of elements loses its end. Pure. */
export function unpacked<N extends ArrayName>(name: N, wired: Packed<N>): Arrays[N] {
  const bytes = Buffer.from(wired[name], "base64");
  const type = arrays[name];
  const own = new Uint8Array(bytes.length - (bytes.length % type.BYTES_PER_ELEMENT));
  own.set(bytes.subarray(0, own.length));
  return new type(own.buffer) as unknown as Arrays[N];
}

/** A turn of the engine as it travels. */
export function wiredGenerated({ responseIds, logprobs, ...rest }: Generated): WiredGenerated {
  return { ...rest, responseIds: packed("i32", responseIds), logprobs: packed("f32", logprobs) };
}

/** A turn of the engine as it was. */
export function generatedOf(wired: WiredGenerated): Generated {
  return { ...wired, responseIds: unpacked("i32", wired.responseIds), logprobs: unpacked("f32", wired.logprobs) };
}

/** As {@link wiredGenerated} makes it. */
export type WiredGenerated = Omit<Generated, "responseIds" | "logprobs"> & {
  readonly responseIds: Packed<"i32">;
  readonly logprobs: Packed<"f32">;
};

/** What a process is told, besides pings and cancels. */
export type ToModule =
  | { readonly type: "open"; readonly use: ModuleUse; readonly path: string; readonly texts: object | null }
  | { readonly type: "call"; readonly id: number; readonly input: Readonly<Record<string, unknown>> }
  | { readonly type: "cancel"; readonly id: number }
  | { readonly type: "drawn"; readonly id: number; readonly turn: number; readonly generated: WiredGenerated }
  | { readonly type: "soFar"; readonly id: number; readonly turn: number; readonly generated: WiredGenerated }
  | { readonly type: "undrawn"; readonly id: number; readonly turn: number; readonly error: WiredError }
  | { readonly type: "ping" };

/**
 * Typed errors with stable codes. One registry per package: `defineErrors("MUSTER_ERR", {...})`.
 * A code is never reused; `docs/reference/errors.md` is kept equal to the registries by a test.
 */
import { clipText } from "./text.ts";

/** Values that fill the `{name}` holes of a message template. */
export type ErrorParams = Readonly<Record<string, string | number | boolean | null>>;

/** What a registry says of one error. */
export interface ErrorDefinition {
  /** Sentence with `{name}` holes: what happened, with which value, and how to mend it. */
  readonly message: string;
  /** True when trying the same thing again later can succeed. */
  readonly retryable?: boolean;
}

/** Base of every error Muster throws on purpose. */
export class MusterError extends Error {
  /** Stable code, e.g. `MUSTER_ERR_FENCED`. */
  readonly code: string;
  /** True when trying the same thing again later can succeed. */
  readonly retryable: boolean;
  /** The values that filled the template. */
  readonly params: ErrorParams;

  constructor(code: string, message: string, options: { retryable: boolean; params: ErrorParams; cause?: unknown }) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.name = code;
    this.code = code;
    this.retryable = options.retryable;
    this.params = options.params;
  }
}

/** Makes one error of a definition. */
export type ErrorFactory = (params?: ErrorParams, cause?: unknown) => MusterError;

const registry = new Map<string, ErrorDefinition>();

/** Every error defined so far, by code: what the documentation test compares with. */
export function definedErrors(): ReadonlyMap<string, ErrorDefinition> {
  return registry;
}

/**
 * Defines a family of errors.
 *
 * @param prefix - Start of every code, e.g. `MUSTER_ERR`.
 * @param definitions - Key in PascalCase to definition; `MeshEmpty` becomes `<prefix>_MESH_EMPTY`.
 * @returns One factory per key.
 * @throws Error when a code is defined twice.
 */
export function defineErrors<const D extends Record<string, ErrorDefinition>>(
  prefix: string,
  definitions: D,
): { readonly [K in keyof D]: ErrorFactory } {
  const entries = Object.entries(definitions).map(([key, definition]) => {
    const code = `${prefix}_${key.replace(/(?<=[a-z0-9])(?=[A-Z])/g, "_").toUpperCase()}`;
    if (registry.has(code)) throw new Error(`error code ${code} is defined twice`);
    registry.set(code, definition);
    return [key, factoryOf(code, definition)] as const;
  });
  return Object.fromEntries(entries) as { readonly [K in keyof D]: ErrorFactory };
}

function factoryOf(code: string, definition: ErrorDefinition): ErrorFactory {
  return (params = {}, cause) => {
    const message = definition.message.replace(/\{(\w+)\}/g, (hole, name: string) => String(params[name] ?? hole));
    return new MusterError(code, message, { retryable: definition.retryable ?? false, params, cause });
  };
}

/** True when `error` is a Muster error of this code. */
export function hasCode(error: unknown, code: string): error is MusterError {
  return error instanceof MusterError && error.code === code;
}

/** Longest text of something thrown that goes anywhere: code of others may throw megabytes. */
const messageMax = 8_000;

/** The text of anything thrown, cut to 8,000 characters: its message when it is an error, otherwise the value itself. */
export function messageOf(error: unknown): string {
  return clipText(String(error instanceof Error ? error.message : error), messageMax);
}

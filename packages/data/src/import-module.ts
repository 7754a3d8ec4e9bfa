/** Modules that a job brings along, imported into the process that needs them. */
import { pathToFileURL } from "node:url";
import { messageOf } from "@muster/base";
import { errors } from "./errors.ts";

/** Imports a module by absolute path. @throws MUSTER_ERR_MODULE_UNLOADABLE with the line in the module where there is one */
export async function importModule(path: string): Promise<Readonly<Record<string, unknown>>> {
  if (/\.[cm]?ts$/.test(path) && !readsTypeScript())
    throw errors.ModuleUnloadable({
      path,
      reason: `Node ${process.versions.node} does not read TypeScript; use Node 22.18 or newer, or a .mjs file`,
    });
  try {
    return (await import(pathToFileURL(path).href)) as Readonly<Record<string, unknown>>;
  } catch (error) {
    throw moduleUnloadable(path, error);
  }
}

/** A module that threw while it was loaded, with its line where its stack says one. */
export function moduleUnloadable(path: string, error: unknown): Error {
  return errors.ModuleUnloadable({ path: `${path}${lineOf(error, path)}`, reason: messageOf(error) }, error);
}

/** Where in a module an error was thrown, as `:12`; empty when its stack does not say so. */
export function lineOf(error: unknown, path: string): string {
  const stack = error instanceof Error ? (error.stack ?? "") : "";
  const places = [pathToFileURL(path).href, path];
  const lines = places.map((place) => stack.split(`${place}:`)[1]?.match(/^\d+/)?.[0]);
  const line = lines.find((each) => each !== undefined);
  return line === undefined ? "" : `:${line}`;
}

/** True when this Node strips types by itself. */
function readsTypeScript(): boolean {
  return Boolean((process.features as { readonly typescript?: unknown }).typescript);
}

/** Where things are in the repository. Everything made by the scripts lies under `.muster`, which git ignores. */
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

/** The repository root. */
export const root = resolve(dirname(fileURLToPath(import.meta.url)), "../..");

/** Folder of everything that set-up and tests make. */
export const musterDirectory = join(root, ".muster");

/** A path from the root, for people. @param {string} path */
export const shortPath = (path) => (path.startsWith(`${root}/`) ? path.slice(root.length + 1) : path);

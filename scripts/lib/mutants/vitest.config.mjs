/** The tests of the project on sources with all mutants in them; the sources stay as they are. */
import { relative, resolve } from "node:path";
import { mergeConfig } from "vitest/config";
import config from "../../../vitest.config.ts";
import { numbered, root } from "./numbers.mjs";
import { switched } from "./switched.mjs";

const modules = numbered();

// biome-ignore lint/style/noDefaultExport: vitest reads a configuration so
export default mergeConfig(config, {
  root,
  plugins: [
    {
      name: "mutants",
      enforce: /** @type {const} */ ("pre"),
      /** @param {string} code @param {string} id */
      transform(code, id) {
        const file = relative(root, id.split("?")[0] ?? "");
        const found = modules.get(file);
        return found ? { code: switched(file, code, found.mutants, found.first), map: null } : null;
      },
    },
  ],
  test: {
    runner: resolve(import.meta.dirname, "runner.mjs"),
    // A test that is slow because the machine has other work says nothing of a mutant; the run as a whole has its limit.
    testTimeout: 60_000,
  },
});

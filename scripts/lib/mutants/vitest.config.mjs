/** The tests of the project on one mutant, which the environment names: the sources stay as they are. */
import { resolve } from "node:path";
import { mergeConfig } from "vitest/config";
import config from "../../../vitest.config.ts";

/** @type {import("./mutants-in.mjs").Mutant} */
const mutant = JSON.parse(process.env.MUSTER_MUTANT ?? "null");

// biome-ignore lint/style/noDefaultExport: vitest reads a configuration so
export default mergeConfig(config, {
  root: resolve(import.meta.dirname, "../../.."),
  plugins: [
    {
      name: "mutant",
      enforce: "pre",
      /** @param {string} code @param {string} id */
      transform(code, id) {
        if (!mutant || id.split("?")[0] !== mutant.file) return null;
        return { code: code.slice(0, mutant.start) + mutant.text + code.slice(mutant.end), map: null };
      },
    },
  ],
});

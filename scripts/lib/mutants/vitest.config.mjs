/** The tests of the project on one mutant, or on marked sources: the sources stay as they are. */
import { relative, resolve } from "node:path";
import { mergeConfig } from "vitest/config";
import { BaseSequencer } from "vitest/node";
import config from "../../../vitest.config.ts";
import { marked } from "./marks.mjs";

const root = resolve(import.meta.dirname, "../../..");

/** Folders whose modules are marked. @type {string[]} */
const areas = JSON.parse(process.env.MUSTER_MUTANTS_MARKED ?? "[]");

/** The mutant that `serve.mjs` is asked about, and its tests in their order. @returns {{ mutant?: import("./mutants-in.mjs").Mutant, tests: string[] }} */
function asked() {
  return Reflect.get(globalThis, "asked") ?? { tests: [] };
}

class InOrder extends BaseSequencer {
  /** @param {import("vitest/node").TestSpecification[]} files @override */
  async sort(files) {
    /** @param {import("vitest/node").TestSpecification} file */
    const placeOf = ({ moduleId }) => asked().tests.indexOf(relative(root, moduleId));
    return [...files].sort((a, b) => placeOf(a) - placeOf(b));
  }
}

const project = {
  plugins: [
    {
      name: "mutant",
      enforce: /** @type {const} */ ("pre"),
      /** @param {string} code @param {string} id */
      transform(code, id) {
        const file = relative(root, id.split("?")[0] ?? "");
        if (areas.some((area) => file.startsWith(`${area}/`))) return { code: marked(file, code), map: null };
        const { mutant } = asked();
        if (file !== mutant?.file) return null;
        return { code: code.slice(0, mutant.start) + mutant.text + code.slice(mutant.end), map: null };
      },
    },
  ],
};

// biome-ignore lint/style/noDefaultExport: vitest reads a configuration so
export default mergeConfig(config, {
  root,
  ...project,
  test: {
    // A test that is slow because the machine has other work says nothing of a mutant; the run as a whole has its limit.
    testTimeout: 60_000,
    sequence: { sequencer: InOrder },
    setupFiles: areas.length > 0 ? [resolve(import.meta.dirname, "note-entered.mjs")] : [],
  },
});

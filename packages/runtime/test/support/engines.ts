/** Engines as the loader of job files sees them: two that differ in their tables, and in what they find wrong. */
import type { EngineTable, JobEngines } from "../../src/config/index.ts";

/** The engine of a job that names none: its table is `[model]`. */
export const llama = { adapter: "embedded", options: { hidden: 64, tied: true } };

const tables: Readonly<Record<string, EngineTable>> = {
  embedded: {
    table: "model",
    keys: [
      { name: "hidden", kind: "integer", default: 64, says: "Width." },
      { name: "tied", kind: "boolean", default: true, says: "Whether embeddings are one tensor." },
    ],
    faultsOf: ({ hidden }) => (Number(hidden) < 1 ? [{ name: "hidden", fault: "expected number to be >=1" }] : []),
  },
  other: {
    table: "engine.other",
    keys: [{ name: "url", kind: "optional-text", default: "", says: "Where it listens." }],
    faultsOf: () => [],
  },
};

/** The engines of the tests. A model of width 13 is none, and one of width 7 is not liked by its engine. */
export const engines: JobEngines = {
  tableOf(adapter) {
    const table = tables[adapter];
    if (!table) throw new Error(`engine "${adapter}" is not known; known engines are embedded, other`);
    return table;
  },
  modelOf({ policy }, { vocab, maxContext }) {
    if (policy.options.hidden === 13) throw new Error("13 makes no model");
    return { vocab, maxContext };
  },
  problemsOf: ({ engine }) =>
    engine.policy.options.hidden === 7
      ? [{ keys: ["model.hidden"], text: "model.hidden = 7 is odd; make it even" }]
      : [],
};

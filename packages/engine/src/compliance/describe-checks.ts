/** Checks of what an adapter says before anything is opened. */
import { tableOfSchema } from "../registry/engine-table.ts";
import { type EngineCheck, mustEqual, mustHold } from "./check.ts";

/** For every adapter. */
export const describeChecks: readonly EngineCheck[] = [
  {
    says: "has a table of texts, numbers and booleans, each with a default that its schema takes",
    run: async ({ adapter }) => {
      const { keys, faultsOf } = tableOfSchema(`engine.${adapter.kind}`, adapter.schema);
      mustEqual(faultsOf(Object.fromEntries(keys.map((key) => [key.name, key.default]))), [], "faults of the defaults");
    },
  },
  {
    says: "refuses a key of its table that it does not know",
    run: async ({ adapter, options }) =>
      mustHold(!adapter.schema.safeParse({ ...options, nobody_knows: 1 }).success, "an unknown key is taken"),
  },
  {
    says: "says the same of itself twice",
    run: async ({ adapter, options, needs, described }) => {
      mustEqual(adapter.describe(options, needs), described, "a second description");
      mustEqual(adapter.build(), adapter.build(), "a second build");
    },
  },
  {
    says: "has a model that is large enough for its task, for the task's tokenizer",
    run: async ({ described, needs }) => {
      mustHold(described.vocab >= needs.vocab, `vocab ${described.vocab} is less than ${needs.vocab}`);
      mustHold(described.maxContext >= needs.maxContext, `context ${described.maxContext} is less than the task's`);
      mustEqual(described.tokenizer, needs.tokenizer, "the tokenizer's digest");
    },
  },
  {
    says: "has a table of tensors without gaps, overlaps and repeated names",
    run: async ({ described: { tensors } }) => {
      mustEqual(new Set(tensors.map(({ name }) => name)).size, tensors.length, "different names");
      let end = 0;
      for (const { name, offsetBytes, sizeBytes } of tensors) {
        mustEqual(offsetBytes, end, `where ${name} begins`);
        end += sizeBytes;
      }
    },
  },
];

/** Names with variables: `model.layers.{layer}.mlp.up_proj.weight`. */
import { errors } from "../errors.ts";

/** What the variables of a name stand for. */
export type Values = ReadonlyMap<string, string>;

/** Finds out whether a name has the form of a pattern. @returns The values of its variables, or `null`. */
export type Matcher = (name: string) => Values | null;

const variable = /\{([a-z]+)\}/g;

/** Makes the matcher of a pattern. */
export function matcherOf(pattern: string): Matcher {
  const variables = [...pattern.matchAll(variable)].map(([, name]) => name!);
  const literals = pattern.split(/\{[a-z]+\}/).map((text) => text.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&"));
  const expression = new RegExp(`^${literals.join("([^.]+)")}$`);
  const start = pattern.slice(0, pattern.search(/\{|$/));
  return (name) => {
    const found = name.startsWith(start) ? expression.exec(name) : null;
    return found && new Map(variables.map((each, index) => [each, found[index + 1]!]));
  };
}

/** The name that a pattern is with these values. @throws MUSTER_ERR_TENSOR_RULE_INVALID for a variable without a value. */
export function fill(pattern: string, values: Values): string {
  return pattern.replace(variable, (text, name: string) => {
    const value = values.get(name);
    if (value === undefined) throw errors.TensorRuleInvalid({ rule: pattern, reason: `${text} stands for nothing` });
    return value;
  });
}

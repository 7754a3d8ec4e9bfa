/** Applies rules to a table of names and shapes. No bytes are touched: the result says where those of each tensor are to be taken from. */
import { isFloatDType } from "../cast/cast.ts";
import type { DType } from "../dtype.ts";
import { errors } from "../errors.ts";
import { faultOfSpec, labelOf, type TensorSpec } from "../tensor-spec.ts";
import { fill, matcherOf, type Values } from "./names.ts";
import type { Part, Rule } from "./rules.ts";
import { cutRuns, joinRuns, type Run } from "./runs.ts";

/** A tensor of the target, and what it is made of. */
export interface ConvertedTensor extends TensorSpec {
  /** Its elements, in order. */
  readonly runs: readonly Run[];
  /** Types that its numbers go through, from that of the source to its own; one entry when they are taken as they are. */
  readonly casts: readonly DType[];
}

/** A table after its rules. */
export interface Conversion {
  readonly tensors: readonly ConvertedTensor[];
  /** What was left out because it has the bytes of another tensor: names of the source. Whoever reads should compare, see `checkTies`. */
  readonly ties: readonly { readonly left: ConvertedTensor; readonly to: ConvertedTensor }[];
}

type Table = ReadonlyMap<string, ConvertedTensor>;

/** Tensors that take the place of one, and those that go. */
interface Change {
  readonly put: Map<string, readonly ConvertedTensor[]>;
  readonly gone: Set<string>;
}

/**
 * Applies rules one after the other. Pure.
 *
 * @throws MUSTER_ERR_TENSOR_RULE_INVALID for a rule that matches nothing or does not fit what it matches, naming the tensor.
 */
export function convertTable(tensors: readonly TensorSpec[], rules: readonly Rule[]): Conversion {
  let table: Table = new Map(
    tensors.map(({ name, dtype, shape }) => {
      const runs = joinRuns([{ source: name, start: 0, elements: product(shape) }]);
      return [name, { name, dtype, shape, runs, casts: [dtype] }];
    }),
  );
  if (table.size !== tensors.length)
    throw errors.TensorRuleInvalid({ rule: "table", reason: "two tensors have the same name" });
  const ties: Conversion["ties"][number][] = [];
  for (const rule of rules) {
    const change = changeOf(rule, table);
    if (change.put.size === 0 && change.gone.size === 0) refuse(rule, "matches no tensor");
    if (rule.kind === "tie")
      for (const name of change.gone)
        ties.push({ left: table.get(name)!, to: table.get(fill(rule.to, matcherOf(rule.name)(name)!))! });
    table = applied(rule, table, change);
  }
  return { tensors: [...table.values()], ties };
}

function applied(rule: Rule, table: Table, { put, gone }: Change): Table {
  const next = new Map<string, ConvertedTensor>();
  for (const [name, tensor] of table)
    for (const each of put.get(name) ?? (gone.has(name) ? [] : [tensor])) {
      const fault = faultOfSpec(each);
      if (fault) refuse(rule, fault);
      if (next.has(each.name)) refuse(rule, `makes ${labelOf(each.name)} a second time`);
      next.set(each.name, each);
    }
  return next;
}

function changeOf(rule: Rule, table: Table): Change {
  switch (rule.kind) {
    case "rename":
      return each(table, rule.from, (tensor, values) => [{ ...tensor, name: fill(rule.to, values) }]);
    case "cast":
      return each(table, rule.name, (tensor) => [castOf(rule, tensor)]);
    case "untie":
      return each(table, rule.to, (tensor, values) => [tensor, { ...tensor, name: fill(rule.name, values) }]);
    case "tie":
      return tieOf(rule, table);
    case "split":
      return each(table, rule.from, (tensor, values) => split(rule, tensor, values));
    case "unstack":
      return each(table, rule.from, (tensor, values) => unstack(rule, tensor, values));
    case "fuse":
      return gathered(rule, table, { slots: rule.parts.length, slotOf: slotOfPart(rule.parts), make: fuse });
    case "stack":
      return gathered(rule, table, { slots: rule.count, slotOf: slotOfNumber(rule), make: stack });
  }
}

/** What a rule makes of each tensor that a pattern matches. */
function each(
  table: Table,
  pattern: string,
  make: (tensor: ConvertedTensor, values: Values) => ConvertedTensor[],
): Change {
  const matches = matcherOf(pattern);
  const put: Change["put"] = new Map();
  for (const [name, tensor] of table) {
    const values = matches(name);
    if (values) put.set(name, make(tensor, values));
  }
  return { put, gone: new Set() };
}

function castOf(rule: Rule & { readonly kind: "cast" }, tensor: ConvertedTensor): ConvertedTensor {
  if (tensor.dtype !== rule.from || !isFloatDType(rule.to))
    refuse(rule, `finds ${tensor.dtype} in ${labelOf(tensor.name)}`);
  return { ...tensor, dtype: rule.to, casts: [...tensor.casts, rule.to] };
}

function tieOf(rule: Rule & { readonly kind: "tie" }, table: Table): Change {
  const gone = new Set<string>();
  const matches = matcherOf(rule.name);
  for (const [name, tensor] of table) {
    const values = matches(name);
    if (!values) continue;
    const other = table.get(fill(rule.to, values));
    if (!other || formOf(other) !== formOf(tensor)) refuse(rule, `finds no tensor of the form of ${labelOf(name)}`);
    gone.add(name);
  }
  return { put: new Map(), gone };
}

/** How a rule that makes one of several tensors finds them. */
interface Gathering<R extends Rule> {
  readonly slots: number;
  /** In which place of what a tensor belongs; `null` when the rule has nothing to do with it. */
  readonly slotOf: (name: string) => { readonly slot: number; readonly values: Values } | null;
  readonly make: (rule: R, members: readonly ConvertedTensor[], name: string) => ConvertedTensor;
}

function gathered<R extends Rule & { readonly into: string }>(rule: R, table: Table, how: Gathering<R>): Change {
  const groups = new Map<string, (ConvertedTensor | undefined)[]>();
  for (const [name, tensor] of table) {
    const found = how.slotOf(name);
    if (!found) continue;
    if (!(found.slot < how.slots)) refuse(rule, `has no place for ${labelOf(name)}`);
    const into = fill(rule.into, found.values);
    const group = groups.get(into) ?? new Array<ConvertedTensor | undefined>(how.slots).fill(undefined);
    if (group[found.slot]) refuse(rule, `has one place for ${labelOf(name)} and ${labelOf(group[found.slot]!.name)}`);
    group[found.slot] = tensor;
    groups.set(into, group);
  }
  const put: Change["put"] = new Map();
  const gone = new Set<string>();
  for (const [into, group] of groups) {
    const members = group.filter((member) => member !== undefined);
    const lacking = group.indexOf(undefined);
    if (lacking >= 0) refuse(rule, `lacks part ${lacking} of ${labelOf(into)}`);
    for (const { name } of members) gone.add(name);
    put.set(members[0]!.name, [how.make(rule, members, into)]);
  }
  return { put, gone };
}

function slotOfPart(parts: readonly Part[]): Gathering<Rule>["slotOf"] {
  const matchers = parts.map(({ name }) => matcherOf(name));
  return (name) => {
    for (const [slot, matches] of matchers.entries()) {
      const values = matches(name);
      if (values) return { slot, values };
    }
    return null;
  };
}

function slotOfNumber({ each: pattern, over }: Rule & { readonly kind: "stack" }): Gathering<Rule>["slotOf"] {
  const matches = matcherOf(pattern);
  return (name) => {
    const values = matches(name);
    const number = values?.get(over);
    if (!values || number === undefined) return null;
    return { slot: /^(0|[1-9]\d*)$/.test(number) ? Number(number) : Number.POSITIVE_INFINITY, values };
  };
}

function fuse(
  rule: Rule & { readonly kind: "fuse" },
  members: readonly ConvertedTensor[],
  name: string,
): ConvertedTensor {
  const [first] = members as [ConvertedTensor];
  for (const [index, { rows }] of rule.parts.entries()) {
    const member = members[index]!;
    if (member.shape[0] !== rows)
      refuse(rule, `finds ${member.shape[0]} rows and not ${rows} in ${labelOf(member.name)}`);
    if (
      formOf({ ...member, shape: [0, ...member.shape.slice(1)] }) !==
      formOf({ ...first, shape: [0, ...first.shape.slice(1)] })
    )
      refuse(rule, `finds tensors of another form: ${labelOf(first.name)} and ${labelOf(member.name)}`);
  }
  const groups = groupsOf(rule);
  const width = product(first.shape.slice(1));
  const pieces = Array.from({ length: groups }, (_, group) =>
    members.flatMap(({ runs, shape }) => {
      const elements = (shape[0]! / groups) * width;
      return [...cutRuns(runs, group * elements, elements)];
    }),
  );
  const rows = rule.parts.reduce((sum, part) => sum + part.rows, 0);
  return { ...first, name, shape: [rows, ...first.shape.slice(1)], runs: joinRuns(pieces.flat()) };
}

function split(rule: Rule & { readonly kind: "split" }, tensor: ConvertedTensor, values: Values): ConvertedTensor[] {
  const all = rule.parts.reduce((sum, { rows }) => sum + rows, 0);
  if (tensor.shape[0] !== all) refuse(rule, `finds ${tensor.shape[0]} rows and not ${all} in ${labelOf(tensor.name)}`);
  const groups = groupsOf(rule);
  const width = product(tensor.shape.slice(1));
  let before = 0;
  return rule.parts.map(({ name, rows }) => {
    const from = before;
    before += rows / groups;
    const pieces = Array.from({ length: groups }, (_, group) => [
      ...cutRuns(tensor.runs, (group * (all / groups) + from) * width, (rows / groups) * width),
    ]);
    return {
      ...tensor,
      name: fill(name, values),
      shape: [rows, ...tensor.shape.slice(1)],
      runs: joinRuns(pieces.flat()),
    };
  });
}

function stack(
  rule: Rule & { readonly kind: "stack" },
  members: readonly ConvertedTensor[],
  name: string,
): ConvertedTensor {
  const [first] = members as [ConvertedTensor];
  for (const member of members)
    if (formOf(member) !== formOf(first))
      refuse(rule, `finds tensors of another form: ${labelOf(first.name)} and ${labelOf(member.name)}`);
  return { ...first, name, shape: [rule.count, ...first.shape], runs: joinRuns(members.flatMap(({ runs }) => runs)) };
}

function unstack(
  rule: Rule & { readonly kind: "unstack" },
  tensor: ConvertedTensor,
  values: Values,
): ConvertedTensor[] {
  const [count, ...shape] = tensor.shape;
  if (count !== rule.count) refuse(rule, `finds ${count} and not ${rule.count} in ${labelOf(tensor.name)}`);
  const elements = product(shape);
  return Array.from({ length: rule.count }, (_, index) => {
    const name = fill(rule.each, new Map([...values, [rule.over, String(index)]]));
    return { ...tensor, name, shape, runs: joinRuns(cutRuns(tensor.runs, index * elements, elements)) };
  });
}

function groupsOf(rule: Rule & { readonly kind: "fuse" | "split" }): number {
  const { groups = 1, parts } = rule;
  if (!Number.isInteger(groups) || groups < 1 || parts.some(({ rows }) => rows % groups !== 0))
    refuse(rule, `cannot cut its parts into ${groups} groups`);
  return groups;
}

const formOf = ({ shape, casts }: ConvertedTensor): string => `${casts.join(">")}[${shape}]`;
const product = (sizes: readonly number[]): number => sizes.reduce((all, size) => all * size, 1);

function refuse(rule: Rule, reason: string): never {
  throw errors.TensorRuleInvalid({
    rule: `${rule.kind} ${"name" in rule ? rule.name : "into" in rule ? rule.into : rule.from}`,
    reason,
  });
}

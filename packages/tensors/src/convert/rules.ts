/**
 * What turns the tensors of one program into those of another, as a list. A name may hold variables such as `{layer}`, each of which stands for
 * one part between two dots; a rule holds for every set of values that its names have in the table.
 */
import type { FloatDType } from "../cast/formats.ts";

/** One of several tensors that lie in one. */
export interface Part {
  readonly name: string;
  /** Size of its first dimension. */
  readonly rows: number;
}

/** Several tensors as one whose rows are theirs: group by group, and within a group part by part. */
interface Fusion {
  readonly parts: readonly Part[];
  /** 1 (default): all rows of a part lie together. Megatron has as many groups as key-value heads: each query head lies by its keys. */
  readonly groups?: number;
}

/** Tensors of equal shape, numbered from 0, as one with a dimension more before the others. */
interface Stack {
  /** Name of one of them; `{over}` is its number. */
  readonly each: string;
  readonly over: string;
  readonly count: number;
}

/** One thing that is different. Each kind has another that takes it back; only a cast to fewer bits loses something. */
export type Rule =
  | { readonly kind: "rename"; readonly from: string; readonly to: string }
  | ({ readonly kind: "fuse"; readonly into: string } & Fusion)
  | ({ readonly kind: "split"; readonly from: string } & Fusion)
  | ({ readonly kind: "stack"; readonly into: string } & Stack)
  | ({ readonly kind: "unstack"; readonly from: string } & Stack)
  /** Leaves out a tensor that has the bytes of another, such as the head of a model with tied embeddings. */
  | { readonly kind: "tie"; readonly name: string; readonly to: string }
  /** Adds a tensor with the bytes of another. */
  | { readonly kind: "untie"; readonly name: string; readonly to: string }
  | { readonly kind: "cast"; readonly name: string; readonly from: FloatDType; readonly to: FloatDType };

/** The rules that lead back. Pure. */
export function reverseRules(rules: readonly Rule[]): readonly Rule[] {
  return rules.map(reverseRule).reverse();
}

function reverseRule(rule: Rule): Rule {
  switch (rule.kind) {
    case "rename":
    case "cast":
      return { ...rule, from: rule.to, to: rule.from } as Rule;
    case "tie":
      return { ...rule, kind: "untie" };
    case "untie":
      return { ...rule, kind: "tie" };
    case "fuse": {
      const { into, ...fusion } = rule;
      return { ...fusion, kind: "split", from: into };
    }
    case "split": {
      const { from, ...fusion } = rule;
      return { ...fusion, kind: "fuse", into: from };
    }
    case "stack": {
      const { into, ...stack } = rule;
      return { ...stack, kind: "unstack", from: into };
    }
    case "unstack": {
      const { from, ...stack } = rule;
      return { ...stack, kind: "stack", into: from };
    }
  }
}

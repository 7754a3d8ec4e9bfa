/** What is said of one key of a job file: where it lands, how it is written, its default, and what it is. */

/** How a value is written outside; `source` is a weight source, `module` a name or a path; `reward` that, a program or an address; `optional-…` is absent when empty. */
export type FieldKind =
  | "text"
  | "optional-text"
  | "integer"
  | "number"
  | "boolean"
  | "duration"
  | "size"
  | "path"
  | "optional-path"
  | "module"
  | "reward"
  | "optional-module"
  | "source";

/** A value as TOML writes it. */
export type Scalar = string | number | boolean;

/** One key. */
export interface Field {
  /** `section.key` in snake case. */
  readonly key: string;
  /** Place in the compiled configuration, dotted. */
  readonly path: string;
  readonly kind: FieldKind;
  /** Value when nobody says otherwise; may depend on keys that stand before it in the table. */
  readonly default: Scalar | ((read: (key: string) => Scalar) => Scalar);
  /** True when somebody must say it; the default is then a placeholder. */
  readonly required: boolean;
  /** One sentence for the reference. */
  readonly says: string;
}

/** A path is told from a name by its slash or its ending; names of built-in things have neither. Pure. */
export function isPathOfModule(value: unknown): boolean {
  return typeof value === "string" && /[\\/]|\.[cm]?[jt]s$/.test(value);
}

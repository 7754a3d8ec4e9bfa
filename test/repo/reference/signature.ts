/** A JSON schema as one short line, like a TypeScript type. */

/** The part of JSON schema that messages use. */
export interface Schema {
  readonly type?: unknown;
  readonly const?: unknown;
  readonly enum?: readonly unknown[];
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly required?: readonly string[];
  readonly items?: Schema;
  readonly anyOf?: readonly Schema[];
  readonly oneOf?: readonly Schema[];
  readonly additionalProperties?: Schema | boolean;
}

/**
 * Renders a schema.
 *
 * @returns For example `{ epoch: integer, members: { id: string }[], cause?: string }`; what JSON cannot represent is `bytes`.
 */
export function signatureOf(schema: Schema): string {
  const options = schema.anyOf ?? schema.oneOf;
  if ("const" in schema) return JSON.stringify(schema.const);
  if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(" | ");
  if (options) return options.map(signatureOf).join(" | ");
  if (schema.type === "array") return `${elementOf(schema.items ?? {})}[]`;
  if (schema.type === "object") return objectOf(schema);
  return typeof schema.type === "string" ? schema.type : "bytes";
}

function objectOf({ properties = {}, required = [], additionalProperties }: Schema): string {
  if (typeof additionalProperties === "object") return `{ [key]: ${signatureOf(additionalProperties)} }`;
  const fields = Object.entries(properties).map(([name, field]) => {
    return `${name}${required.includes(name) ? "" : "?"}: ${signatureOf(field)}`;
  });
  return fields.length === 0 ? "{}" : `{ ${fields.join(", ")} }`;
}

function elementOf(schema: Schema): string {
  const isUnion = schema.anyOf ?? schema.oneOf ?? schema.enum;
  return isUnion ? `(${signatureOf(schema)})` : signatureOf(schema);
}

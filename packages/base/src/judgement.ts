/** What a reward says of a response, checked where it comes in: a number, or a number with what it is made of and what is to be kept with it. Pure. */
import type { RewardAnswer } from "./contract.ts";
import { messageOf } from "./errors.ts";
import { shownValue } from "./shown-value.ts";

/**
 * Largest reward, and its negative the smallest: far beyond what any reward means, and small enough that no sum or square of rewards is lost or
 * becomes infinite.
 */
export const rewardMax = 1e9;

/** What a judgement may have. Metadata are counted as the UTF-8 of their JSON. */
export const judgementLimits = { components: 16, nameChars: 48, metadataBytes: 2_048 } as const;

/** Names of components: they are labels, tags and keys elsewhere. */
export const componentName = /^[A-Za-z0-9][A-Za-z0-9_./-]*$/;

/** A reward as it is stored with its trajectory. */
export interface Judged {
  readonly reward: number;
  /** By name, in order; at least one. */
  readonly components?: readonly { readonly name: string; readonly value: number }[];
  /** An object as JSON. */
  readonly metadata?: string;
}

/** Makes the error for a field that is not as it must be; `value` is short enough to be shown. */
export type RefuseJudgement = (flaw: {
  readonly field: string;
  readonly value: string;
  readonly rule: string;
}) => Error;

/** The number of an answer. Pure. */
export function numberOfAnswer(answer: RewardAnswer): number {
  return typeof answer === "object" && answer !== null ? answer.reward : answer;
}

/** Checks an answer. @throws What `refuse` makes of the first flaw; its `field` is `reward` for a number that is none. */
export function judgedOf(answer: unknown, refuse: RefuseJudgement): Judged {
  const fault = (field: string, value: unknown, rule: string): Error =>
    refuse({ field, value: typeof value === "string" ? value.slice(0, 200) : shownValue(value), rule });
  const { reward, components, metadata, ...rest } = fieldsOf(answer);
  if (!isValue(reward))
    throw refuse({ field: "reward", value: shownValue(reward), rule: `a number from -${rewardMax} to ${rewardMax}` });
  const [unknown] = Object.keys(rest);
  if (unknown !== undefined)
    throw fault(unknown.slice(0, 64), rest[unknown], "left out: an answer has reward, components and metadata");
  const parts = components === undefined ? [] : partsOf(components, fault);
  return {
    reward,
    ...(parts.length > 0 ? { components: parts } : {}),
    ...(metadata === undefined ? {} : { metadata: jsonOf(metadata, fault) }),
  };
}

type Fault = (field: string, value: unknown, rule: string) => Error;

/** Of a number alone, and of what has no reward at all, it is that. */
function fieldsOf(answer: unknown): Readonly<Record<string, unknown>> {
  return isPlain(answer) && "reward" in answer ? (answer as Readonly<Record<string, unknown>>) : { reward: answer };
}

function partsOf(components: unknown, fault: Fault): NonNullable<Judged["components"]> {
  if (!isPlain(components)) throw fault("components", components, "an object of numbers by name");
  const parts = Object.entries(components);
  const { components: most, nameChars } = judgementLimits;
  if (parts.length > most) throw fault("components", `${parts.length} of them`, `at most ${most}`);
  return parts
    .map(([part, value]) => {
      if (part.length > nameChars || !componentName.test(part))
        throw fault("components", part, `names of at most ${nameChars} letters, digits and _./-, the first no sign`);
      if (!isValue(value))
        throw fault(`components.${part}`, value, `a number, finite and between -${rewardMax} and ${rewardMax}`);
      return { name: part, value };
    })
    .sort((a, b) => (a.name < b.name ? -1 : 1));
}

function jsonOf(metadata: unknown, fault: Fault): string {
  const rule = `an object of at most ${judgementLimits.metadataBytes} bytes as JSON`;
  if (!isPlain(metadata)) throw fault("metadata", metadata, rule);
  let text: string | undefined;
  try {
    text = JSON.stringify(metadata);
  } catch (error) {
    throw fault("metadata", `what is no JSON (${messageOf(error).slice(0, 200)})`, rule);
  }
  // What has a toJSON of its own may become anything.
  if (text?.[0] !== "{") throw fault("metadata", text, rule);
  const bytes = Buffer.byteLength(text);
  if (bytes > judgementLimits.metadataBytes) throw fault("metadata", `${bytes} bytes`, rule);
  return text;
}

const isPlain = (value: unknown): value is object =>
  typeof value === "object" && value !== null && !Array.isArray(value);

const isValue = (value: unknown): value is number => typeof value === "number" && Math.abs(value) <= rewardMax;

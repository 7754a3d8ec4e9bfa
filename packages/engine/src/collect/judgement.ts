/** What a reward answered, checked where it comes in: a number, or a number with what it is made of and what is to be kept with it. */
import { messageOf, type RewardAnswer, shownValue } from "@muster/base";
import { componentName, judgementLimits, type RewardComponent, rewardMax } from "@muster/protocol";
import { errors } from "../errors.ts";

/** A reward as it is stored with its trajectory. */
export interface Judged {
  readonly reward: number;
  /** By name, in order; at least one. */
  readonly components?: readonly RewardComponent[];
  /** An object as JSON. */
  readonly metadata?: string;
}

/** The number of an answer. Pure. */
export function numberOfAnswer(answer: RewardAnswer): number {
  return typeof answer === "object" && answer !== null ? answer.reward : answer;
}

/**
 * Checks an answer.
 *
 * @param name - The reward, as errors name it.
 * @throws MUSTER_ERR_REWARD_INVALID for a number that is none, MUSTER_ERR_REWARD_FIELD for what comes beside it
 */
export function judgedOf(answer: unknown, name: string): Judged {
  const { reward, components, metadata, ...rest } = fieldsOf(answer);
  if (!isValue(reward)) throw errors.RewardInvalid({ name, value: shownValue(reward), limit: rewardMax });
  const [unknown] = Object.keys(rest);
  if (unknown !== undefined)
    throw fault(name, unknown, rest[unknown], "left out: an answer has reward, components and metadata");
  const parts = components === undefined ? [] : partsOf(components, name);
  return {
    reward,
    ...(parts.length > 0 ? { components: parts } : {}),
    ...(metadata === undefined ? {} : { metadata: jsonOf(metadata, name) }),
  };
}

/** Of a number alone, and of what has no reward at all, it is that. */
function fieldsOf(answer: unknown): Readonly<Record<string, unknown>> {
  return isPlain(answer) && "reward" in answer ? (answer as Readonly<Record<string, unknown>>) : { reward: answer };
}

function partsOf(components: unknown, name: string): readonly RewardComponent[] {
  if (!isPlain(components)) throw fault(name, "components", components, "an object of numbers by name");
  const parts = Object.entries(components);
  const { components: most, nameChars } = judgementLimits;
  if (parts.length > most) throw fault(name, "components", `${parts.length} of them`, `at most ${most}`);
  return parts
    .map(([part, value]) => {
      if (part.length > nameChars || !componentName.test(part))
        throw fault(
          name,
          "components",
          part,
          `names of at most ${nameChars} letters, digits and _./-, the first no sign`,
        );
      if (!isValue(value))
        throw fault(name, `components.${part}`, value, `a number, finite and between -${rewardMax} and ${rewardMax}`);
      return { name: part, value };
    })
    .sort((a, b) => (a.name < b.name ? -1 : 1));
}

function jsonOf(metadata: unknown, name: string): string {
  const rule = `an object of at most ${judgementLimits.metadataBytes} bytes as JSON`;
  if (!isPlain(metadata)) throw fault(name, "metadata", metadata, rule);
  let text: string | undefined;
  try {
    text = JSON.stringify(metadata);
  } catch (error) {
    throw fault(name, "metadata", `what is no JSON (${messageOf(error).slice(0, 200)})`, rule);
  }
  // What has a toJSON of its own may become anything.
  if (text?.[0] !== "{") throw fault(name, "metadata", text, rule);
  const bytes = Buffer.byteLength(text);
  if (bytes > judgementLimits.metadataBytes) throw fault(name, "metadata", `${bytes} bytes`, rule);
  return text;
}

const isPlain = (value: unknown): value is object =>
  typeof value === "object" && value !== null && !Array.isArray(value);

const isValue = (value: unknown): value is number => typeof value === "number" && Math.abs(value) <= rewardMax;

function fault(name: string, field: string, value: unknown, rule: string): Error {
  return errors.RewardField({
    name,
    field,
    value: typeof value === "string" ? value.slice(0, 200) : shownValue(value),
    rule,
  });
}

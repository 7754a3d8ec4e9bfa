/** The options of a process that is one of several ranks. */
import { errors } from "../errors.ts";

type Environment = Readonly<Record<string, string | undefined>>;

/** The rank of this process: as the option says, else RANK, else NODE_RANK. @throws MUSTER_ERR_OPTION_INVALID */
export function rankOf(asked: {
  readonly option: string;
  readonly said: string | undefined;
  readonly ranks: number;
  readonly env: Environment;
}): number {
  const { option, said, ranks, env } = asked;
  const name = env.RANK === undefined ? "NODE_RANK" : "RANK";
  const value = said ?? env[name];
  const from = said === undefined ? ` (from ${name})` : "";
  if (value === undefined)
    throw errors.OptionInvalid({
      option,
      value: "nothing",
      reason: "is given; name the rank, or set RANK or NODE_RANK",
    });
  const rank = Number(value);
  if (/^\d{1,4}$/.test(value) && rank < ranks) return rank;
  throw errors.OptionInvalid({
    option,
    value: value || '""',
    reason: `is no rank of ${ranks}${from}; use 0 to ${ranks - 1}`,
  });
}

/** Loads of all ranks, from a text like `2,1,1`. @throws MUSTER_ERR_OPTION_INVALID */
export function weightsOf(text: string, ranks: number): readonly number[] {
  const parts = text.split(",");
  const fault = (reason: string) =>
    errors.OptionInvalid({ option: "rank-weights", value: text.slice(0, 80) || '""', reason });
  const example = Array.from({ length: Math.min(ranks, 8) }, (_, i) => (i === 0 ? 2 : 1)).join(",");
  if (parts.length !== ranks)
    throw fault(`has ${parts.length} weights for ${ranks} ranks; give one for each, for example ${example}`);
  const odd = parts.find((part) => !/^\d{1,6}$/.test(part) || Number(part) < 1);
  if (odd !== undefined)
    throw fault(`has "${odd}", which is no weight; use whole numbers from 1 to 999999, for example ${example}`);
  return parts.map(Number);
}

/** What a reward answered, checked where it comes in, with the errors of this package. */
import { judgedOf as checkedOf, type Judged, rewardMax } from "@muster/base";
import { errors } from "../errors.ts";

/**
 * Checks an answer.
 *
 * @param name - The reward, as errors name it.
 * @throws MUSTER_ERR_REWARD_INVALID for a number that is none, MUSTER_ERR_REWARD_FIELD for what comes beside it
 */
export function judgedOf(answer: unknown, name: string): Judged {
  return checkedOf(answer, ({ field, value, rule }) =>
    field === "reward"
      ? errors.RewardInvalid({ name, value, limit: rewardMax })
      : errors.RewardField({ name, field, value, rule }),
  );
}

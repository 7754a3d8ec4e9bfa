/** A reward that a service computes: one POST for each response. */
import { messageOf, type RewardAnswer } from "@muster/base";
import type { Reward, RewardInput } from "../engine.ts";
import { errors } from "../errors.ts";
import { answerMax, parsedAnswer, questionOf, quoted, rewardIn } from "./reward-wire.ts";

/** True for the address of a service. Pure. */
export function isHttpReward(reward: string): boolean {
  return /^https?:\/\//.test(reward);
}

/**
 * Asks a service. What may be over in a moment (nobody listens, 429, 5xx) is a failure of transport, which has a rule of its own in `[failure]`;
 * everything else is the reward's own fault.
 */
export class HttpReward implements Reward {
  readonly name: string;

  constructor(url: string) {
    this.name = url;
  }

  async score(input: RewardInput, signal: AbortSignal): Promise<RewardAnswer> {
    const { name } = this;
    const body = JSON.stringify(questionOf(input));
    const headers = { "content-type": "application/json", accept: "application/json" };
    const response = await fetch(name, { method: "POST", headers, body, signal, redirect: "error" }).catch((error) => {
      signal.throwIfAborted();
      throw errors.RewardUnreachable({ name, reason: reasonOf(error) }, error);
    });
    const text = await this.#textOf(response, signal);
    if (response.ok) return rewardIn(parsedAnswer(text, name), name);
    const said = { name, reason: `it answered ${response.status}: ${quoted(text)}` };
    throw isTransient(response.status) ? errors.RewardUnreachable(said) : errors.RewardFailed(said);
  }

  /** The body, as far as an answer can be long. */
  async #textOf({ body }: Response, signal: AbortSignal): Promise<string> {
    const parts: Uint8Array[] = [];
    let bytes = 0;
    try {
      for await (const part of body ?? []) {
        bytes += part.byteLength;
        if (bytes > answerMax) break;
        parts.push(part);
      }
    } catch (error) {
      signal.throwIfAborted();
      throw errors.RewardUnreachable({ name: this.name, reason: reasonOf(error) }, error);
    }
    if (bytes > answerMax) throw errors.RewardAnswer({ name: this.name, answer: `more than ${answerMax} bytes` });
    return new TextDecoder().decode(Buffer.concat(parts));
  }
}

function isTransient(status: number): boolean {
  return status === 429 || status >= 500;
}

/** The cause says what failed; the error itself says only that something did. */
function reasonOf(error: unknown): string {
  const cause = error instanceof Error ? error.cause : undefined;
  return messageOf(cause ?? error) || messageOf(error);
}

/** Checks of reward workers: a score for each trajectory, whatever is judged beside it. */
import { type Judged, messageOf, type RewardAnswer } from "@muster/base";
import type { ModelNeeds } from "@muster/data";
import { judgedOf } from "../collect/judgement.ts";
import { mustEqual, mustHold } from "../compliance/check.ts";
import type { ReadyCheck } from "../compliance/index.ts";
import type { RewardInput } from "../engine.ts";
import { errors } from "../errors.ts";
import { rewardIn } from "../rewards/reward-wire.ts";
import { askedOf, scoresOf } from "../rewards/worker-reward.ts";
import type { WorkerSelf } from "./description.ts";
import { type OpenWorker, openScorer } from "./open-link.ts";
import type { WorkerOptions } from "./options.ts";
import { checksWith, withWorker } from "./with-worker.ts";

/** What a reward worker is tried with. */
export interface RewardSubject {
  readonly options: WorkerOptions;
  readonly needs: ModelNeeds;
  readonly description: WorkerSelf;
  /** Trajectories that it should be able to judge; at least one. */
  readonly trajectories: readonly RewardInput[];
}

/** A score, or the error that the worker names. */
type Found = Judged | { readonly error: string };

const never = new AbortController().signal;

/** For workers with the role `reward`. */
export function rewardChecks({ options, needs, description, trajectories }: RewardSubject): readonly ReadyCheck[] {
  type Worker = OpenWorker<WorkerSelf>;
  const open = (): Promise<Worker> => openScorer("reward", options, needs);
  const check = checksWith("judges", open);
  const ask = async (worker: Worker, inputs: readonly RewardInput[], signal = never): Promise<readonly Found[]> =>
    (await scoresOf(worker, inputs.map(askedOf), signal)).map(foundIn);
  const repeats = description.deterministic;
  return [
    check("gives each trajectory of a request a score or an error, and not errors alone", async (worker) => {
      const found = await ask(worker, trajectories);
      const faults = found.flatMap((one) => ("error" in one ? [one.error] : []));
      mustHold(faults.length < found.length, `all ${found.length} trajectories have errors, the first: ${faults[0]}`);
    }),
    ...(repeats
      ? [
          check("equal trajectories have equal scores, alone, together and in another order", async (worker) => {
            const together = await ask(worker, trajectories);
            const turned = await ask(worker, [...trajectories].reverse());
            mustEqual([...turned].reverse(), together, "scores in another order");
            for (const [i, input] of trajectories.entries())
              mustEqual(await ask(worker, [input]), [together[i]], `the score of trajectory ${i} alone`);
          }),
          check("a worker that was started anew gives the same scores", async (worker) => {
            const again = await withWorker(open, (other) => ask(other, trajectories));
            mustEqual(again, await ask(worker, trajectories), "scores of a second life");
          }),
        ]
      : []),
    check(
      "goes on after responses that are empty, cut off, as long as can be, or of odd characters",
      async (worker) => {
        const before = await ask(worker, trajectories);
        const odd = oddOf(trajectories[0] as RewardInput, needs);
        mustEqual((await ask(worker, odd)).length, odd.length, "answers to odd responses");
        const after = await ask(worker, trajectories);
        if (repeats) mustEqual(after, before, "scores after odd responses");
      },
    ),
    check("a request that is cancelled does not disturb the next", async (worker) => {
      const stop = new AbortController();
      const cancelled = ask(worker, trajectories, stop.signal).catch(() => {});
      stop.abort(new Error("cancelled"));
      await cancelled;
      mustEqual((await ask(worker, trajectories)).length, trajectories.length, "answers after a cancelled request");
    }),
  ];
}

/** @throws MUSTER_ERR_ENGINE_NOT_COMPLIANT for what is neither */
function foundIn(score: unknown): Found {
  let answer: RewardAnswer;
  try {
    answer = rewardIn(score, "this worker");
  } catch (error) {
    const isSaid = typeof (score as { readonly error?: unknown } | null)?.error === "string";
    mustHold(isSaid, `a score is ${JSON.stringify(score)}, and must be {"reward": number} or {"error": text}`);
    return { error: String(error) };
  }
  try {
    return judgedOf(answer, "this worker");
  } catch (error) {
    throw errors.EngineNotCompliant({ what: messageOf(error) });
  }
}

function oddOf(input: RewardInput, { vocab, maxContext }: ModelNeeds): readonly RewardInput[] {
  const room = Math.max(1, maxContext - input.prompt.ids.length);
  const longest = Int32Array.from({ length: room }, (_, i) => i % vocab);
  return [
    { ...input, responseIds: new Int32Array(0), responseText: "" },
    { ...input, responseIds: longest, responseText: "7".repeat(room), finish: "length" },
    { ...input, responseText: '\u0000"\\\n\u2028\ud83d\ude00 \ufffd' },
  ];
}

/** Algorithms by the names that jobs give them. */
import type { AlgorithmName } from "@muster/protocol";
import type { Algorithm } from "./algorithm.ts";
import { cispo } from "./cispo.ts";
import { dapo } from "./dapo.ts";
import { drGrpo } from "./dr-grpo.ts";
import { grpo } from "./grpo.ts";
import { gspo } from "./gspo.ts";
import { reinforcePlusPlus } from "./reinforce-plus-plus.ts";
import { rloo } from "./rloo.ts";
import { sft } from "./sft.ts";

const algorithms: Readonly<Record<AlgorithmName, Algorithm>> = {
  ...{ grpo, dr_grpo: drGrpo, dapo, gspo, cispo, rloo, sft },
  "reinforce++": reinforcePlusPlus,
};

/** The algorithm of this name. */
export function algorithmOf(name: AlgorithmName): Algorithm {
  return algorithms[name];
}

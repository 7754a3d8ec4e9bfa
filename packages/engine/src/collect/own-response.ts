/** Responses of the engine itself, and what becomes a trajectory of any response. */
import type { Judged } from "@muster/base";
import type { BegunTrajectory, Trajectory } from "@muster/protocol";
import type { Generated } from "../engine.ts";
import { errors } from "../errors.ts";
import { segmentsOf } from "./begun-group.ts";
import type { Response } from "./check-response.ts";

/** A response as the engine drew it. @throws MUSTER_ERR_TRAJECTORY_INVALID, MUSTER_ERR_TRAJECTORY_ABORTED */
export function ownResponse(generated: Generated | undefined, resumed: BegunTrajectory | undefined): Response {
  if (!generated) throw errors.TrajectoryInvalid({ from: "the engine", reason: "it is missing" });
  const { responseIds, logprobs, finish } = generated;
  if (finish === "abort") throw errors.TrajectoryAborted();
  const { length } = responseIds;
  return {
    responseIds,
    logprobs,
    lossMask: new Uint8Array(length).fill(1),
    finish,
    segments: segmentsOf(generated, resumed),
  };
}

/** A judged response as it is stored. Pure. */
export function trajectoryOf(promptIds: Int32Array, response: Response, judged: Judged): Trajectory {
  const { responseIds, logprobs, lossMask, finish, segments } = response;
  const tokens = new Int32Array(promptIds.length + responseIds.length);
  tokens.set(promptIds);
  tokens.set(responseIds, promptIds.length);
  return {
    tokens,
    promptLength: promptIds.length,
    logprobs,
    lossMask,
    ...judged,
    status: finish === "length" ? "truncated" : "completed",
    segments,
  };
}

export { type Ask, type CommandEnd, whenAborted } from "./ask.ts";
export type { BarrierAnswer } from "./barriers.ts";
export {
  type CommandWait,
  type ConnectJobOptions,
  clientOf,
  connectJob,
  type JobClient,
  type SeenStatus,
  statusAgeMaxMs,
} from "./client.ts";
export type { EventMessage, FollowOptions } from "./follow.ts";

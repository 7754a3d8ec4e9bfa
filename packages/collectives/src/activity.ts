/** What the data plane of this process has done, and the times of its network. */
import type { DataPlaneActivity, DataPlaneEvent, NetworkTimes } from "./activity-types.ts";
import { errors } from "./errors.ts";
import { native } from "./native.ts";

/** Asks the addon what was done. @throws MUSTER_ERR_NATIVE_MISSING when it is not built. */
export function dataPlaneActivity(): DataPlaneActivity {
  return native().activity();
}

/** Hears of what happened: the events, oldest first, and how many more were forgotten because they came too fast. */
export type DataPlaneListener = (events: readonly DataPlaneEvent[], forgotten: number) => void;

/**
 * Tells one listener soon after something happened; `null`: nobody. A process has one, the last who asked. Does not keep the process alive.
 * At most 32 events of a kind are remembered until they are told.
 *
 * @throws MUSTER_ERR_NATIVE_MISSING when the addon is not built.
 */
export function hearDataPlane(listener: DataPlaneListener | null): void {
  const addon = native();
  const tell = (): void => {
    const { events, forgotten } = addon.takeEvents();
    if (events.length > 0) listener?.(events, forgotten);
  };
  addon.hearEvents(listener === null ? null : tell);
}

/**
 * Sets the times of this process. What is under way may go on with those that it began with.
 *
 * @throws MUSTER_ERR_NATIVE_OPTION_INVALID for times that do not go together; then nothing changes.
 */
export function setNetworkTimes(times: NetworkTimes): void {
  const set = native().setNetworkTimes(times);
  if (!set.ok) throw errors.NativeOptionInvalid({ field: "network", value: set.message, fix: "change one of the two" });
}

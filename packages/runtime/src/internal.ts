/** The second entry point, for tests, the simulator and benches: what no other package needs at work. */
export { type ManualClock, manualClock } from "./clock.ts";
export { envNameOf } from "./config/fields.ts";
export { validateTiming } from "./config/relations.ts";

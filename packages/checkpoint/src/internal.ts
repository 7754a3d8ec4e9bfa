/** The second door, for tests, the simulator and benches: what no other package needs at work. */
export { nodeFs } from "./node-files.ts";

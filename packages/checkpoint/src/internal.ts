/** The second entry point, for tests, the simulator and benches: what no other package needs at work. */
export { isLeftover, parseSet } from "./names.ts";
export { nodeFs } from "./node-files.ts";

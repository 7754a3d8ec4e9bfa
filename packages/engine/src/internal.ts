/** The second entry point, for tests, the simulator and benches: what no other package needs at work. */
export { gradientIn, readGradient, writeGradient } from "./gradient-memory.ts";
export { inlineWeights } from "./inline-weights.ts";
export { rewardOf } from "./rewards/built-in.ts";
export { copyOf } from "./section-bytes.ts";

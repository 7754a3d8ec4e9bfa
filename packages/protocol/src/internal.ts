/** The second entry point, for tests, the simulator and benches: what no other package needs at work. */
export { protocolMinor } from "./envelope.ts";
export { backoffMaxMs } from "./failure.ts";
export { networkDefaults, samplesDefaults } from "./job-config.ts";
export { operatorKinds } from "./messages/fleet.ts";
export { messageKinds } from "./messages/index.ts";
export { clipBody } from "./outgoing.ts";
export { groupsMessageBytesMax } from "./pieces.ts";
export { ranksMax } from "./ranks.ts";

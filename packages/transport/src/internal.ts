/** The second entry point, for tests, the simulator and benches: what no other package needs at work. */
export { createMemoryBroker, type MemoryBroker, type MemoryBrokerOptions } from "./memory/broker.ts";
export { matcherOf } from "./memory/subject.ts";
export { generateKeys } from "./server/keys.ts";
export { permissionsOf } from "./server/roles.ts";
export { streamRules } from "./streams.ts";

/** The second door, for tests, the simulator and benches: what no other package needs at work. */
export { encodePart, encodeRecord } from "./controller/journal-record.ts";
export { type ControllerSnapshot, type Replayed, replayJournal } from "./controller/journal-replay.ts";
export { encodeSnapshot, partsOf, snapshotVersion } from "./controller/journal-snapshot.ts";
export { snapshotIdEnd } from "./controller/journal-writer.ts";
export { statusOf } from "./controller/status.ts";
export type { Beats } from "./environment.ts";
export { fetchBody } from "./groups/fetch.ts";
export { type StoreTools, type Storing, storeBody } from "./groups/store.ts";
export type { HostSigns } from "./node/host-signs.ts";
export type { KeeperDoor, KeeperExit, KeeperGiven, StartOrder } from "./node/keeper.ts";
export { LastEnd } from "./node/last-end.ts";
export { type NodeRoleOnOptions, nodeRoleOn } from "./node/node-work.ts";
export { rankShards } from "./shards/rank-shards.ts";
export { Receipts, ticketOf, writeReceipt } from "./shards/tickets.ts";
export { type KnownTable, ownTable, Tables } from "./tables.ts";

/** The thread of one rank. It does what it is told, one after the other; what it cannot do ends it, and with it the replica. */
import { parentPort, workerData } from "node:worker_threads";
import { type RankOrder, type RankStart, rankDone } from "./messages.ts";
import { Rank } from "./rank.ts";

const rank = new Rank(workerData as RankStart);

parentPort?.on("message", (order: RankOrder) => {
  if (order.kind === "load") rank.load(order.section);
  else rank.decode(order.rows, order.copies);
  parentPort?.postMessage(rankDone);
});

/** Entry of the thread that hashes pieces of files: it answers each with its SHA-256, in the order in which they come. */
import { createHash } from "node:crypto";
import { parentPort } from "node:worker_threads";

parentPort?.on("message", (piece: Uint8Array) => {
  parentPort?.postMessage(createHash("sha256").update(piece).digest());
});

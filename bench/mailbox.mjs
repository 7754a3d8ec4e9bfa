/** What the two lanes and the bound of a mailbox cost. */
import { createMailbox } from "../packages/runtime/dist/host/mailbox.js"; // internal on purpose: the host is measured by host.mjs
import { compare } from "./lib/compare.mjs";

export const about = "mailbox of two lanes against an array";

const burst = 256;
const taken = 64;
const entry = { event: { type: "x" }, settle: undefined };

function throughMailbox() {
  const mailbox = createMailbox(10_000);
  return (/** @type {number} */ pieces) => {
    for (let left = pieces; left > 0; left -= burst) {
      for (let i = 0; i < burst; i++) mailbox.offer(entry, i % 8 === 0 ? "control" : "data");
      while (mailbox.size() > 0) mailbox.take(taken);
    }
  };
}

/** The cheapest queue there is: one array that is emptied in slices. */
function throughArray() {
  /** @type {unknown[]} */
  let queue = [];
  return (/** @type {number} */ pieces) => {
    for (let left = pieces; left > 0; left -= burst) {
      for (let i = 0; i < burst; i++) queue.push(entry);
      for (let at = 0; at < queue.length; at += taken) queue.slice(at, at + taken);
      queue = [];
    }
  };
}

export async function* run() {
  yield await compare({
    name: "event in and out of the mailbox",
    against: "array",
    ours: throughMailbox(),
    reference: throughArray(),
  });
}

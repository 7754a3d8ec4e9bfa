/** Whether this machine can cut a second host off, as `muster chaos --faults partition` does. No job needs that. */
import { execFileSync } from "node:child_process";
import { messageOf } from "@muster/base";
import { type Check, ok } from "./check.ts";

const commandMs = 10_000;

/** Why this machine can not have a second host; `null` when it can. Makes and removes one to find out. */
export function partitionsMissing(): string | null {
  if (process.platform !== "linux") return "network namespaces need Linux";
  try {
    execFileSync("unshare", ["--net", "--uts", "--mount", "nft", "list", "tables"], {
      stdio: "pipe",
      timeout: commandMs,
    });
    execFileSync("ip", ["-V"], { stdio: "pipe", timeout: commandMs });
    return null;
  } catch (error) {
    const [reason = ""] = messageOf(error).trim().split("\n").slice(-1);
    return `network namespaces with firewall rules need root, iproute2 and nftables (${reason})`;
  }
}

/** Reports it. Nothing is missing where it can not: only that fault is not to be had. */
export function checkPartitions(): Check {
  const missing = partitionsMissing();
  const what = "muster chaos --faults partition";
  return ok("partitions", missing === null ? `${what} can be used` : `${what} can not be used: ${missing}`);
}

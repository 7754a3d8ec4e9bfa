/** Whether tests can have a second host: a network namespace of their own with firewall rules. */
import { execFileSync } from "node:child_process";

/** Why there can be no second host here; `null` when there can. */
export function secondHostMissing(): string | null {
  try {
    execFileSync("unshare", ["--net", "nft", "list", "tables"], { stdio: "pipe" });
    return null;
  } catch (error) {
    return `a second host needs root, iproute2 and nftables (${error instanceof Error ? error.message : error})`;
  }
}

/** Addresses of brokers to which passwords and orders would go unencrypted over a network. */
import { isLoopback } from "@muster/http";

/** Warning for a broker's address, one server or several with commas; `null` where every one has TLS or is on this host. */
export function plainTextWarning(url: string): string | null {
  const open = url.split(",").filter((server) => !/^(tls|wss):/.test(server.trim()) && !isHere(server.trim()));
  if (open.length === 0) return null;
  return `the broker at ${open.join(", ")} is reached without TLS: whoever sits between reads the tokens and orders of this job; use tls:// or a private network`;
}

function isHere(server: string): boolean {
  const address = URL.parse(server.includes("://") ? server : `nats://${server}`);
  return isLoopback(address?.hostname.replace(/^\[(.*)\]$/, "$1") ?? "");
}

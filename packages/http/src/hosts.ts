/** Names of hosts: which are this host alone, and which a request may call a server by. Pure. */
import { isIP } from "node:net";

/** True for an address that only processes of this host reach. Resolvers take `127.1` for one, too. */
export function isLoopback(host: string): boolean {
  return host === "localhost" || host === "::1" || /^127(\.\d{1,3}){1,3}$/.test(host);
}

/** The name in a `Host` header: without port and brackets, in lower case; empty where there is none. */
export function hostNameOf(header: string | undefined): string {
  return (header ?? "")
    .replace(/:\d*$/, "")
    .replace(/^\[(.*)\]$/, "$1")
    .toLowerCase();
}

/** True when a `Host` header has an address or `localhost`: a name of the web that was made to point here is neither. */
export function namesAddress(header: string | undefined): boolean {
  const name = hostNameOf(header);
  return name === "localhost" || isIP(name) !== 0;
}

/** A host as it stands in a URL: IPv6 addresses in brackets. */
export function shownHost(host: string): string {
  return host.includes(":") ? `[${host}]` : host;
}

/** Which of this host's addresses the data plane is served on. */
import { BlockList, isIPv6 } from "node:net";
import { networkInterfaces } from "node:os";
import { errors } from "./errors.ts";

/**
 * Resolves `tcpHost`: an address stands for itself, a network such as `10.0.0.0/8` or `fd00::/8` for this host's first address in it,
 * loopback last.
 *
 * @throws MUSTER_ERR_NATIVE_OPTION_INVALID for what is no network, and when this host has no address in it.
 */
export function localAddressOf(tcpHost: string): string {
  const [network = "", prefix, ...rest] = tcpHost.split("/");
  if (prefix === undefined) return tcpHost;
  const family = isIPv6(network) ? "ipv6" : "ipv4";
  const wanted = new BlockList();
  try {
    if (rest.length > 0 || !/^\d{1,3}$/.test(prefix)) throw new RangeError(prefix);
    wanted.addSubnet(network, Number(prefix), family);
  } catch (error) {
    const fix = "give an address such as 10.0.0.7 or a network such as 10.0.0.0/8";
    throw errors.NativeOptionInvalid({ field: "tcpHost", value: tcpHost, fix }, error);
  }
  const addresses = Object.values(networkInterfaces()).flatMap((each) => each ?? []);
  const inside = addresses.filter((each) => each.family.toLowerCase() === family && wanted.check(each.address, family));
  const found = inside.find(({ internal }) => !internal) ?? inside[0];
  if (found) return found.address;
  const have = addresses.map(({ address }) => address).join(", ");
  throw errors.NativeOptionInvalid({ field: "tcpHost", value: tcpHost, fix: `this host has only ${have}` });
}

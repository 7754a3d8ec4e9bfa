/** The master's own address, and the network in which other hosts reach it. */
import { lookup } from "node:dns/promises";
import { networkInterfaces } from "node:os";
import { isLoopback } from "@muster/http";
import { errors } from "../errors.ts";

/** An address of this host, and its network such as `10.0.0.0/24`. */
export interface OwnAddress {
  readonly address: string;
  readonly network: string;
}

/** Addresses of this host that others may reach; those of IPv4 first. */
function ownAddresses(): readonly OwnAddress[] {
  const all = Object.values(networkInterfaces()).flatMap((each) => each ?? []);
  const outside = all.filter(
    ({ internal, address, cidr }) => !internal && cidr !== null && !address.startsWith("fe80:"),
  );
  return [
    ...outside.filter(({ family }) => family === "IPv4"),
    ...outside.filter(({ family }) => family !== "IPv4"),
  ].map(({ address, cidr }) => ({ address, network: cidr ?? address }));
}

/**
 * The address at which this host is the master: the one that is named, else the only one that it has.
 *
 * @throws MUSTER_ERR_OPTION_INVALID when it is none of this host, or when there are several to choose from.
 */
export async function masterAddress(
  named: string | null,
  own: readonly OwnAddress[] = ownAddresses(),
  find: (name: string) => Promise<readonly { readonly address: string }[]> = (name) => lookup(name, { all: true }),
): Promise<OwnAddress> {
  const names = own.map(({ address }) => address).join(", ") || "none but loopback";
  const fault = (value: string, reason: string) => errors.OptionInvalid({ option: "master-addr", value, reason });
  if (named === null) {
    const [first, ...others] = own;
    const isClear =
      first !== undefined && others.every(({ address }) => address.includes(":") && !first.address.includes(":"));
    if (isClear) return first;
    throw fault(
      "nothing",
      `is given, and this host has several addresses or none (${names}); name the one that the other ranks use, here or in MASTER_ADDR`,
    );
  }
  const found = (await find(named).catch(() => [])).map(({ address }) => address);
  const [first] = found;
  if (first === undefined) throw fault(named, `is no name that this host knows; its addresses are ${names}`);
  const known = own.find(({ address }) => found.includes(address));
  if (known) return known;
  if (!isLoopback(first))
    throw fault(named, `is no address of this host, and the master listens on one; its addresses are ${names}`);
  if (isLoopback(named)) return { address: first, network: first };
  // Many systems write their own name into /etc/hosts like this; the name leads the other hosts to another address.
  throw fault(named, `is ${first} on this host, which no other host reaches; name one of its addresses: ${names}`);
}

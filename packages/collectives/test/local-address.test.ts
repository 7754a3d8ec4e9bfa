import { networkInterfaces } from "node:os";
import { expect, it } from "vitest";
import { localAddressOf } from "../src/local-address.ts";

it("an address stands for itself, also one that is not of this host", () => {
  expect(localAddressOf("192.0.2.7")).toBe("192.0.2.7");
});

it("a network stands for this host's address in it", () => {
  expect(localAddressOf("127.0.0.0/8")).toBe("127.0.0.1");
  const outside = Object.values(networkInterfaces())
    .flatMap((each) => each ?? [])
    .find(({ family, internal }) => family === "IPv4" && !internal);
  if (outside) expect(localAddressOf("0.0.0.0/0")).toBe(outside.address); // before the loopback address
});

it.each(["10.0.0.0/33", "10.0.0/8", "host/8", "10.0.0.0/8/8", "10.0.0.0/"])("%s is refused as no network", (text) => {
  expect(() => localAddressOf(text)).toThrow(`tcpHost is ${text}; give an address such as`);
});

it("a network that this host is not in is refused with the addresses that it has", () => {
  expect(() => localAddressOf("203.0.113.0/24")).toThrow("this host has only");
});

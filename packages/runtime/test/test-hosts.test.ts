import { execFileSync } from "node:child_process";
import { networkInterfaces } from "node:os";
import { describe, expect, it } from "vitest";
import { openTestHosts } from "../src/index.ts";
import { claimSubnet } from "../src/test-subnets.ts";

/** Names that all processes of a machine see; `beforeAdd` is what another process does in that moment. */
function machine(beforeAdd: (names: Set<string>, name: string) => void = () => {}) {
  const names = new Set<string>(["default", "much12"]);
  return {
    names,
    namespaces: {
      list: () => [...names],
      add: (name: string) => {
        beforeAdd(names, name);
        names.add(name);
      },
      remove: (name: string) => {
        names.delete(name);
      },
    },
  };
}

describe("networks of tests", () => {
  it("are each claimed by one process, whose name is in the claim, until all are taken", () => {
    const { namespaces, names } = machine();
    const taken = Array.from({ length: 256 }, (_, i) => claimSubnet(i % 2 === 0 ? 300 : 7, namespaces));
    expect(new Set(taken).size).toBe(256);
    expect(taken.slice(0, 2)).toEqual([300 % 256, 7]);
    expect(names.has("mu300n44sw")).toBe(true);
    expect(() => claimSubnet(7, namespaces)).toThrow(/^all 256 networks 10.214.x.0\/24 are taken/);
  });

  it("are given back when another process claims the same one in the same moment", () => {
    const { namespaces, names } = machine((all, name) => {
      if (name === "mu7n7sw") all.add("mu263n7sw");
    });
    expect(claimSubnet(7, namespaces)).toBe(8);
    expect([...names].filter((name) => name.startsWith("mu"))).toEqual(["much12", "mu263n7sw", "mu7n8sw"]);
  });

  it("of one process stand side by side, each with this host as its gateway", (context) => {
    const [one, other] = [1, 2].map((count) => openTestHosts({ count, gateway: true }));
    try {
      if (!one || !other || "missing" in one) return context.skip(one && "missing" in one ? one.missing : "no network");
      if ("missing" in other) throw new Error(other.missing);
      expect(one.network).not.toBe(other.network);
      const addresses = Object.values(networkInterfaces()).flatMap((each) => each?.map(({ address }) => address) ?? []);
      expect(addresses).toEqual(expect.arrayContaining([one.gateway, other.gateway]));
      for (const { hosts, gateway } of [one, other])
        for (const { address, wrapper } of hosts) {
          const [command = "ip", ...inside] = wrapper;
          // The kernel says by which address the way to the gateway leads.
          const route = execFileSync(command, [...inside, "ip", "route", "get", gateway], { encoding: "utf8" });
          expect(route).toContain(`src ${address} `);
        }
    } finally {
      for (const network of [one, other]) if (network && !("missing" in network)) network.close();
    }
  });
});

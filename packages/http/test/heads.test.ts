/** Heads of requests. */
import { describe, expect, it } from "vitest";
import { bearerOf, hostNameOf, isLoopback, isSameSecret, namesAddress, shownHost } from "../src/index.ts";

describe("hosts", () => {
  it.each(["localhost", "127.0.0.1", "127.8.8.8", "127.1", "::1"])("%s is this host alone", (host) => {
    expect(isLoopback(host)).toBe(true);
  });

  it.each(["0.0.0.0", "::", "10.0.0.1", "127.evil.example", "localhost.evil.example", "1127.0.0.1", ""])(
    "%s is reached by others, or may be",
    (host) => {
      expect(isLoopback(host)).toBe(false);
    },
  );

  it.each([
    ["Desk.Example:7070", "desk.example"],
    ["[::1]:80", "::1"],
    ["10.0.0.1", "10.0.0.1"],
    [undefined, ""],
  ])("the header %s names %s", (header, name) => {
    expect(hostNameOf(header)).toBe(name);
  });

  it("a header with an address or localhost was not made to point here; one with a name may be", () => {
    for (const header of ["10.0.0.1:1", "[fe80::1]:1", "LOCALHOST", "127.0.0.1"])
      expect(namesAddress(header)).toBe(true);
    for (const header of ["evil.example", "127.0.0.1.evil.example", "", undefined])
      expect(namesAddress(header)).toBe(false);
  });

  it("an address of IPv6 has brackets in a URL", () => {
    expect([shownHost("::1"), shownHost("10.0.0.1"), shownHost("desk")]).toEqual(["[::1]", "10.0.0.1", "desk"]);
  });
});

describe("tokens", () => {
  it.each([
    ["Bearer abc", "abc"],
    ["bearer  abc", "abc"],
    ["Bearer", null],
    ["Bearer a b", null],
    ["Basic abc", null],
    ["Bearer ä", null],
    [undefined, null],
  ])("%s has the token %s", (header, token) => {
    expect(bearerOf(header)).toBe(token);
  });

  it("are the same when each character is, whatever their lengths", () => {
    expect([isSameSecret("abc", "abc"), isSameSecret("abc", "abd"), isSameSecret("abc", "abcd")]).toEqual([
      true,
      false,
      false,
    ]);
  });
});

import { describe, expect, it } from "vitest";
import { defineErrors, hasCode, invariant, MusterError, messageOf } from "../src/index.ts";
import { definedErrors } from "../src/internal.ts";

const errors = defineErrors("TEST_ERR", {
  PortTaken: { message: "port {port} of {host} is taken", retryable: true },
  Http2Closed: { message: "closed" },
});

describe("a family of errors", () => {
  it("fills the holes of its template and keeps the values", () => {
    const cause = new Error("EADDRINUSE");
    const error = errors.PortTaken({ port: 80, host: "a" }, cause);
    expect(error).toBeInstanceOf(MusterError);
    expect(error).toMatchObject({
      code: "TEST_ERR_PORT_TAKEN",
      name: "TEST_ERR_PORT_TAKEN",
      message: "port 80 of a is taken",
      retryable: true,
      params: { port: 80, host: "a" },
      cause,
    });
  });

  it("is not retryable and has no cause unless it says so", () => {
    const error = errors.Http2Closed();
    expect(error.retryable).toBe(false);
    expect("cause" in error).toBe(false);
  });

  it("leaves a hole without value visible and shows false, 0 and empty values", () => {
    expect(errors.PortTaken({ host: "a" }).message).toBe("port {port} of a is taken");
    expect(errors.PortTaken({ port: 0, host: "" }).message).toBe("port 0 of  is taken");
  });

  it("does not fill holes that come with the values", () => {
    expect(errors.PortTaken({ port: "{host}", host: "a" }).message).toBe("port {host} of a is taken");
  });

  it("makes codes of capitals, with words and numbers apart", () => {
    expect(errors.Http2Closed().code).toBe("TEST_ERR_HTTP2_CLOSED");
  });

  it("refuses to define a code twice", () => {
    expect(() => defineErrors("TEST_ERR", { PortTaken: { message: "again" } })).toThrow("TEST_ERR_PORT_TAKEN");
  });

  it("is in the registry of all errors", () => {
    expect(definedErrors().get("TEST_ERR_PORT_TAKEN")).toEqual({
      message: "port {port} of {host} is taken",
      retryable: true,
    });
  });
});

describe("hasCode", () => {
  it("knows an error by its code, and nothing else", () => {
    expect(hasCode(errors.Http2Closed(), "TEST_ERR_HTTP2_CLOSED")).toBe(true);
    expect(hasCode(errors.Http2Closed(), "TEST_ERR_PORT_TAKEN")).toBe(false);
    expect(hasCode(Object.assign(new Error("x"), { code: "TEST_ERR_HTTP2_CLOSED" }), "TEST_ERR_HTTP2_CLOSED")).toBe(
      false,
    );
  });
});

describe("messageOf", () => {
  it.each([
    [new Error("plain"), "plain"],
    ["text", "text"],
    [undefined, "undefined"],
    [{ toString: (): string => "own" }, "own"],
  ])("gives the text of anything thrown", (thrown, text) => {
    expect(messageOf(thrown)).toBe(text);
  });
});

describe("an invariant", () => {
  it.each([true, 1, "a", {}])("lets what is true pass", (value) => {
    expect(() => invariant(value, "holds")).not.toThrow();
  });

  it.each([false, 0, "", null, undefined, Number.NaN])("stops at what is not, and names it", (value) => {
    expect(() => invariant(value, "the ledger balances")).toThrow(
      expect.objectContaining({
        code: "MUSTER_ERR_INVARIANT_BROKEN",
        message: "broken invariant: the ledger balances",
      }),
    );
  });
});

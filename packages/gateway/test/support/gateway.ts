/** A gateway on loopback for tests, and a way to call it. */
import { silentLogger } from "@muster/base";
import { type GatewayOptions, startGateway } from "../../src/index.ts";
import { testClock } from "./clock.ts";

/** An answer with its status. */
export interface Answered {
  readonly status: number;
  // biome-ignore lint/suspicious/noExplicitAny: tests look at whatever came.
  readonly body: any;
}

/** Starts a gateway whose clock stands until the test moves it. */
export async function openGateway(options: Partial<GatewayOptions> = {}) {
  const clock = testClock();
  const gateway = await startGateway({ port: 0, clock, logger: silentLogger, ...options });
  const call = async (line: string, body?: unknown, headers: Record<string, string> = {}): Promise<Answered> => {
    const [method = "GET", path = "/"] = line.split(" ");
    const sent = body === undefined ? {} : { body: typeof body === "string" ? body : JSON.stringify(body) };
    const type: Record<string, string> = body === undefined ? {} : { "content-type": "application/json" };
    const response = await fetch(gateway.url + path, { method, ...sent, headers: { ...type, ...headers } });
    const text = await response.text();
    const isJson = response.headers.get("content-type")?.includes("json");
    return { status: response.status, body: isJson ? JSON.parse(text) : text };
  };
  return { gateway, clock, call };
}

import { createMemoryBroker } from "@muster/transport/internal";
import { describeTransport } from "../src/index.ts";

describeTransport("memory", async (options) => {
  const broker = createMemoryBroker({ job: "test", ...options });
  return { connect: async (name) => broker.connect(name), close: async () => {} };
});

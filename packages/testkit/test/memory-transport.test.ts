import { createMemoryBroker } from "@muster/transport";
import { describeTransport } from "../src/index.ts";

describeTransport("memory", async () => {
  const broker = createMemoryBroker({ job: "test" });
  return { connect: async (name) => broker.connect(name), close: async () => {} };
});

import { describeTransport, startTestServer } from "@muster/testkit";

describeTransport("NATS", () => startTestServer());

import { describeTransport, startTestServer } from "@muster/testkit";

describeTransport("NATS", (options) => startTestServer(options));

/** The transport that simulated processes have keeps what every transport promises: production code runs on it. */
import { describeTransport } from "@muster/testkit";
import { Failpoints } from "../../src/faults/failpoints.ts";
import { Network } from "../../src/net/network.ts";
import { SimProcess } from "../../src/world/process.ts";
import { VirtualWorld, type World } from "../../src/world/world.ts";

/** The suite waits in real time, so the world's time goes with it. */
function passTime(world: World): () => Promise<void> {
  const startMs = performance.now();
  let isOver = false;
  const passing = (async (): Promise<void> => {
    while (!isOver) {
      const untilMs = performance.now() - startMs;
      world.after(untilMs - world.nowMs, () => {});
      await world.run(() => isOver || world.nowMs >= untilMs, untilMs);
      await new Promise((resolve) => setTimeout(resolve, 1));
    }
  })();
  return async () => {
    isOver = true;
    await passing;
  };
}

describeTransport("simulated", async ({ bytesMax = {} }) => {
  const world = new VirtualWorld(1);
  const observer = { stored: () => {}, accepted: () => {} };
  const network = new Network({ world, job: "test", failpoints: new Failpoints([], () => {}), observer, bytesMax });
  const close = passTime(world);
  let pid = 0;
  return {
    connect(name) {
      const [role = ""] = name.split(".");
      const process = new SimProcess(world, { name, node: name, role, pid: ++pid, clockOffsetMs: 0, clockRate: 1 });
      return network.connect(process, name);
    },
    close,
  };
});

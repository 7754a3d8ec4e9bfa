/** The times of the data plane's network against each other; `native/src/core/limits.cc` refuses the same. */
import type { JobConfig } from "@muster/protocol";
import type { Relation } from "./relation.ts";

type Time = keyof JobConfig["network"];

const keyOf = (time: Time): string =>
  `network.${time.slice(0, -2).replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)}`;

function within(factor: number, small: Time, large: Time, why: string): Relation {
  const times = factor === 1 ? "{0}" : `${factor} times {0}`;
  return {
    keys: [keyOf(small), keyOf(large)],
    holds: ({ network }) => factor * network[small] <= network[large],
    rule: `${times} must not be longer than {1}: ${why}`,
    fix: `raise ${keyOf(large)} or lower ${keyOf(small)}`,
  };
}

export const networkRelations: readonly Relation[] = [
  within(4, "aliveMs", "answerMs", "three words may be late"),
  within(4, "aliveMs", "hostSilenceMs", "three words may be late"),
  within(1, "answerMs", "connectMs", "who is called has to answer as well"),
  within(1, "answerMs", "starvedMs", "a holder that says nothing is left before one that says that it lives"),
  within(1, "answerMs", "handshakeMs", "a greeting is answered"),
  within(1, "starvedMs", "stallMs", "a reader waits for a starving holder, and is not dropped meanwhile"),
  within(1, "hostSilenceMs", "meshCallMs", "a call waits for a host that is busy"),
  {
    keys: ["network.starved", "timing.pull"],
    holds: ({ network, timing }) => network.starvedMs < timing.pullMs,
    rule: "{0} must be shorter than {1}: a pull turns to another holder in time",
    fix: "raise timing.pull or lower network.starved",
  },
  {
    keys: ["network.mesh_call", "timing.mesh"],
    holds: ({ network, timing }) => network.meshCallMs < timing.meshMs,
    rule: "{0} must be shorter than {1}: a call at a host that was busy is made again in time",
    fix: "raise timing.mesh or lower network.mesh_call",
  },
  {
    keys: ["network.host_silence", "timing.collective"],
    holds: ({ network, timing }) => network.hostSilenceMs < timing.collectiveMs,
    rule: "{0} must be shorter than {1}: the host that is lost is named before the sum times out",
    fix: "raise timing.collective or lower network.host_silence",
  },
];

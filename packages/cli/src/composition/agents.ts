/** The agents of a job: programs of the user's, at doors of the router's package. */
import type { OpenAgents } from "@muster/actors";
import { agentFunction } from "@muster/engine";

/** Opens the doors that a sampler's agents ask at. */
export const openAgents: OpenAgents = async (agent, logger) => {
  const { startEpisodeServer } = await import("@muster/router");
  return agentFunction(agent, await startEpisodeServer({ logger }), process.env);
};

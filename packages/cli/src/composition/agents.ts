/** The agents of a job: programs of the user's, at endpoints of the router's package. */
import type { OpenAgents } from "@muster/actors";
import { agentFunction } from "@muster/engine";

/** Opens the endpoints that a sampler's agents call. */
export const openAgents: OpenAgents = async (agent, logger) => {
  const { startEpisodeServer } = await import("@muster/router");
  return agentFunction(agent, await startEpisodeServer({ logger }), process.env);
};

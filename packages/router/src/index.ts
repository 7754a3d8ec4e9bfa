export {
  type Episode,
  type EpisodeOptions,
  type EpisodeServer,
  startEpisodeServer,
} from "./episodes/episode-server.ts";
export { type Router, type RouterOptions, type ShownMetrics, startRouter } from "./router.ts";
export { checkRouterConfig, type RouterConfig, routerDefaults } from "./router-config.ts";
export type { Tokens } from "./routes/guard.ts";
export type { SamplerEngine, SamplerRequest, SamplerTokenizer } from "./sampler/sampler-engine.ts";
export { type SamplerServer, type SamplerServerOptions, startSamplerServer } from "./sampler/sampler-server.ts";

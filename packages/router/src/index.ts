export { isLoopback, type Tokens } from "./doors/guard.ts";
export { type Router, type RouterOptions, type ShownMetrics, startRouter } from "./router.ts";
export { checkRouterConfig, type RouterConfig, routerDefaults } from "./router-config.ts";

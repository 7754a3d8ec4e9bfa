export { type Dashboard, type DashboardOptions, openDashboard } from "./server/dashboard.ts";
export type { Say } from "./view/facts.ts";

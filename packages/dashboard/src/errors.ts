import { defineErrors } from "@muster/base";

/** Errors of the page's server. */
export const errors = defineErrors("MUSTER_ERR", {
  DashboardListen: {
    message: "the dashboard can not listen at {host}:{port}: {reason}; choose another port with --listen",
  },
});

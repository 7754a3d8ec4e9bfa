import { defineErrors } from "@muster/base";

/** Errors of clients. */
export const errors = defineErrors("MUSTER_ERR", {
  RequestRefused: {
    message: "the controller did not take {kind}: {reason}; does this program have the version of the job?",
  },
});

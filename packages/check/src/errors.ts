import { defineErrors } from "@muster/base";

/** Errors of audits. */
export const errors = defineErrors("MUSTER_ERR", {
  RunFolderInvalid: {
    message: "{path} is not the folder of a run: {reason}; muster jobs lists the runs of a folder",
  },
});

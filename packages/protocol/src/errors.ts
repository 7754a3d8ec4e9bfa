import { defineErrors } from "@muster/base";

/** Errors of ids, subjects and the codec. */
export const errors = defineErrors("MUSTER_ERR", {
  IdInvalid: {
    message: '{field} "{value}" is not a valid id; use 1 to 48 of a-z, 0-9 and "-", starting with a letter or digit',
  },
  MessageTooLarge: { message: "message of {bytes} bytes is over the limit of {limitBytes} bytes" },
  MessageMalformed: { message: "malformed message: {reason}" },
  MessageOtherVersion: {
    message:
      "message of protocol version {found}, this build speaks {known}: run one release of Muster in all processes of a job",
  },
  MessageOlderVersion: {
    message:
      "message of protocol version {found}, and {least} is the oldest that this build takes: start its process again with the release of the others",
  },
  StatusUnreadable: {
    message:
      "the status of job {job} can not be read: {reason}; is its controller of the same version as this program?",
  },
  MessageUnknownKind: { message: 'message kind "{kind}" is not known to this version' },
});

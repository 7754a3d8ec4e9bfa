import { defineErrors } from "@muster/base";

/** Errors of the router and of the endpoints of samplers. */
export const errors = defineErrors("MUSTER_ERR", {
  RouterListen: {
    message: "the router can not listen on {host}:{port}: {reason}; choose another address with --host and --port",
  },
  RouterOpen: {
    message:
      "the router is to listen on {host}, which others can reach, without tokens: name files with --token-file and --admin-token-file, or listen on 127.0.0.1",
  },
  RouterToken: {
    message:
      "{field} has {length} characters; a token has at least 32 of the printable ones without spaces, for example: openssl rand -hex 32",
  },
  RouterWorkerUrl: {
    message: 'url "{url}" {reason}; a worker is named as http://HOST:PORT',
  },
  RouterSessions: { message: "the sessions in {directory} can not be kept: {reason}" },
  RouterOption: { message: "{option}: {value} {reason}" },
});

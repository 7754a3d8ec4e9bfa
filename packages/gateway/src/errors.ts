import { defineErrors } from "@muster/base";

/** Errors of the gateway and of its clients. */
export const errors = defineErrors("MUSTER_ERR", {
  GatewayAddress: { message: "the gateway can not listen on {host}:{port}: {reason}; choose another with --port" },
  GatewayOpen: {
    message: "host: {host} can be reached from other machines, and {missing}; listen on 127.0.0.1, or give {option}",
  },
  GatewayTokens: { message: "{path} line {line}: {reason}; write lines of a scope (read, write or admin) and a token" },
  GatewayStateBusy: {
    message: "{directory} is in use by another gateway; end it, or name another folder with --state",
  },
  CoordinatorGone: { message: "the coordinator {url} does not answer: {reason}", retryable: true },
  CoordinatorRefused: { message: "the coordinator answered {status}: {reason}" },
  PeerGone: { message: "{address}: {reason}", retryable: true },
  CommGroup: { message: 'the group "{group}" {reason}' },
  WeightsLate: { message: "no whole version after {version} reached {role} in time: {reason}", retryable: true },
  VersionOffered: { message: "version: {version} is not above {newest}, the newest of {group}; give a higher one" },
  GatewayState: { message: "the gateway's state in {path} can not be used: {reason}" },
});

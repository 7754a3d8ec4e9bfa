/** Addresses of workers as people write them. Pure. */
import { createHash } from "node:crypto";
import { errors } from "../errors.ts";

/** @returns The origin of a worker, `http://host:port`. @throws MUSTER_ERR_ROUTER_WORKER_URL */
export function workerUrlOf(text: string): string {
  const shown = text.slice(0, 200);
  const fault = (reason: string) => errors.RouterWorkerUrl({ url: shown, reason });
  if (!URL.canParse(text)) throw fault("is no address");
  const url = new URL(text);
  if (url.protocol !== "http:" && url.protocol !== "https:") throw fault("is neither http nor https");
  if (url.username !== "" || url.password !== "")
    throw errors.RouterWorkerUrl({ url: "(hidden)", reason: "holds a user or a password" });
  if ((url.pathname !== "/" && url.pathname !== "") || url.search !== "" || url.hash !== "")
    throw fault("has a path behind the port");
  return url.origin;
}

/** The name of a worker: the same for the same address. */
export function workerIdOf(url: string): string {
  return `w-${createHash("sha256").update(url).digest("hex").slice(0, 12)}`;
}

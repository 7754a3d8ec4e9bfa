/** What a subject carries, by its name alone. */

/** Kind of the message on a subject: `step.voted`, `heartbeat.beat`, `groups.batch`, `journal`. */
export function kindOfSubject(subject: string): string {
  const [, , place = "", ...rest] = subject.split(".");
  if (place === "hb") return "heartbeat.beat";
  if (place === "groups") return "groups.batch";
  if (place === "journal") return "journal";
  return rest.slice(-2).join(".");
}

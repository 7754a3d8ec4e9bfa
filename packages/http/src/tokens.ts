/** Bearer tokens (RFC 6750, section 2.1). Pure. */
import { createHash, timingSafeEqual } from "node:crypto";

/** The token of an `authorization` header; `null` where it has none. */
export function bearerOf(header: string | undefined): string | null {
  return /^Bearer +([\x21-\x7e]+)$/i.exec(header ?? "")?.[1] ?? null;
}

/** Compares in a time that tells nothing of where two secrets differ, nor of how long they are. */
export function isSameSecret(a: string, b: string): boolean {
  const digest = (text: string): Buffer => createHash("sha256").update(text).digest();
  return timingSafeEqual(digest(a), digest(b));
}

/** The one encoding that a message has: the part of RFC 8785 that the protocol needs. */
import { byBytes, utf8 } from "./bytes.js";
import { Refused, type Reason } from "./refusal.js";

export type Json = string | number | boolean | Json[] | { [key: string]: Json };

const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** JSON.stringify escapes as RFC 8785 says, which follows ECMAScript in this. It does not sort keys: `encode` does. */
export function encode(value: Json): string {
  if (Array.isArray(value)) return `[${value.map(encode).join(",")}]`;
  if (typeof value !== "object") return JSON.stringify(value);
  const keys = Object.keys(value).sort(byBytes);
  return `{${keys.map((key) => `${JSON.stringify(key)}:${encode(value[key]!)}`).join(",")}}`;
}

export const encoded = (value: Json): Uint8Array => utf8(encode(value));

/** Parses JSON in any spelling. Refused as `otherwise` if the bytes are not JSON in UTF-8. */
export function parse(bytes: Uint8Array, otherwise: Reason = "malformed"): unknown {
  try {
    return JSON.parse(decoder.decode(bytes));
  } catch {
    throw new Refused(otherwise);
  }
}

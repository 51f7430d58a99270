/** Bytes, and their encodings as text. */
import { createHash } from "node:crypto";

const BASE58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";
const BASE32 = "abcdefghijklmnopqrstuvwxyz234567";
const encoder = new TextEncoder();

export const utf8 = (text: string): Uint8Array => encoder.encode(text);
export const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString("hex");
export const base64url = (bytes: Uint8Array): string => Buffer.from(bytes).toString("base64url");
export const equal = (one: Uint8Array, other: Uint8Array): boolean => Buffer.compare(one, other) === 0;

export function concat(...parts: Uint8Array[]): Uint8Array {
  return new Uint8Array(Buffer.concat(parts));
}

export function sha256(...parts: Uint8Array[]): Uint8Array {
  const hash = createHash("sha256");
  for (const part of parts) hash.update(part);
  return new Uint8Array(hash.digest());
}

/** Compares texts by their bytes in UTF-8, which gives another order than UTF-16. */
export const byBytes = (one: string, other: string): number => Buffer.compare(utf8(one), utf8(other));

/** The base32 of RFC 4648, in lower case and without padding. */
export function base32(bytes: Uint8Array): string {
  const bits = [...bytes].map((byte) => byte.toString(2).padStart(8, "0")).join("");
  return (bits.match(/.{1,5}/g) ?? []).map((five) => BASE32[parseInt(five.padEnd(5, "0"), 2)]).join("");
}

/** The texts with a byte 00 between each two of them. */
export function joined(...texts: string[]): Uint8Array {
  return utf8(texts.join("\0"));
}

export function fromBase64url(text: string): Uint8Array | null {
  const bytes = new Uint8Array(Buffer.from(text, "base64url"));
  return base64url(bytes) === text ? bytes : null; // Node skips characters that are not base64url
}

/** The value as a big-endian number of `size` bytes. */
export function number(value: number, size: number): Uint8Array {
  const bytes = Buffer.alloc(size);
  bytes.writeUIntBE(value, 0, size);
  return new Uint8Array(bytes);
}

export function base58(bytes: Uint8Array): string {
  let value = BigInt(`0x0${hex(bytes)}`);
  let text = "";
  for (; value > 0n; value /= 58n) text = BASE58[Number(value % 58n)] + text;
  for (const byte of bytes) {
    if (byte !== 0) break;
    text = `1${text}`;
  }
  return text;
}

/** For short texts: takes quadratic time. A text that is not base58 gives any bytes: encode them again, and compare. */
export function fromBase58(text: string): Uint8Array {
  let value = 0n;
  for (const char of text) value = value * 58n + BigInt(Math.max(0, BASE58.indexOf(char)));
  const digits = value === 0n ? "" : value.toString(16);
  const rest = Buffer.from(digits.length % 2 ? `0${digits}` : digits, "hex");
  const zeros = text.length - text.replace(/^1+/, "").length;
  return concat(new Uint8Array(zeros), rest);
}

/** Reads a frame from its first byte to its last. Behind its end, `left` is negative and `number` throws RangeError. */
export class Reader {
  private at = 0;

  constructor(private readonly bytes: Uint8Array) {}

  take(count: number): Uint8Array {
    this.at += count;
    return this.bytes.subarray(this.at - count, this.at);
  }

  number(size: number): number {
    return Buffer.from(this.take(size)).readUIntBE(0, size);
  }

  rest(): Uint8Array {
    return this.take(this.bytes.length - this.at);
  }

  get left(): number {
    return this.bytes.length - this.at;
  }
}

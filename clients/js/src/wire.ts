/** Requests and replies of the streams, without the length of a frame. Other bytes are `malformed` or `too big`. */
import { swarmTag } from "./addressing.js";
import { concat, equal, number, Reader } from "./bytes.js";
import { encoded, parse } from "./canonical.js";
import * as limits from "./limits.js";
import { asHello, type Hello } from "./messages.js";
import { Refused, refuseUnless } from "./refusal.js";

export const HELLO = "/swarm-node/hello";
export const EXCHANGE = `/swarm-node/${limits.VERSION}/exchange`;
export const PULL = `/swarm-node/${limits.VERSION}/pull`;
export const PUNCH = `/swarm-node/${limits.VERSION}/punch`;

export type Known = { key: Uint8Array; seq: number }; // the tag of a key, and the highest sequence number known of it
export type ExchangeRequest = { tag: Uint8Array; limit: number; digest: Known[]; announcement: Uint8Array };
export type Aged = { age: number; announcement: Uint8Array }; // age: in tenths of a second
export type PullRequest = { tag: Uint8Array; hashes: Uint8Array[] };
export type Endpoint = { address: Uint8Array; port: number };

/** Reads a whole frame. A frame with bytes missing or left over is `malformed`, one of more than `most` `too big`. */
function read<T>(bytes: Uint8Array, most: number, take: (reader: Reader) => T): T {
  refuseUnless(bytes.length <= most, "too big");
  const reader = new Reader(bytes);
  try {
    const found = take(reader);
    refuseUnless(reader.left === 0, "malformed");
    return found;
  } catch (error) {
    if (error instanceof RangeError) throw new Refused("malformed");
    throw error;
  }
}

function times<T>(count: number, take: () => T): T[] {
  return Array.from({ length: count }, take);
}

export function exchangeRequest({ tag, limit, digest, announcement }: ExchangeRequest): Uint8Array {
  const known = digest.map(({ key, seq }) => concat(key, number(seq, 4)));
  return concat(tag, number(limit, 1), number(digest.length, 1), ...known, announcement);
}

export function readExchangeRequest(bytes: Uint8Array): ExchangeRequest {
  return read(bytes, limits.MAX_EXCHANGE_REQUEST_BYTES, (reader) => {
    const tag = reader.take(limits.SWARM_TAG_BYTES);
    const [limit, count] = [reader.number(1), reader.number(1)];
    refuseUnless(limit <= limits.MAX_EXCHANGED && count <= limits.MAX_DIGEST, "malformed");
    const digest = times(count, () => ({ key: reader.take(limits.KEY_TAG_BYTES), seq: reader.number(4) }));
    const announcement = reader.rest();
    refuseUnless(announcement.length <= limits.MAX_ANNOUNCEMENT_BYTES, "malformed");
    return { tag, limit, digest, announcement };
  });
}

export function exchangeReply(aged: Aged[]): Uint8Array {
  const parts = aged.map(({ age, announcement }) => concat(number(age, 2), number(announcement.length, 2), announcement));
  return concat(number(aged.length, 1), ...parts);
}

export function readExchangeReply(bytes: Uint8Array): Aged[] {
  return read(bytes, limits.MAX_EXCHANGE_REPLY_BYTES, (reader) => {
    const count = reader.number(1);
    refuseUnless(count <= limits.MAX_EXCHANGED, "malformed");
    return times(count, () => {
      const [age, length] = [reader.number(2), reader.number(2)];
      refuseUnless(length <= limits.MAX_ANNOUNCEMENT_BYTES, "malformed");
      return { age, announcement: reader.take(length) };
    });
  });
}

export function pullRequest({ tag, hashes }: PullRequest): Uint8Array {
  return concat(tag, ...hashes);
}

export function readPullRequest(bytes: Uint8Array): PullRequest {
  return read(bytes, limits.MAX_PULL_REQUEST_BYTES, (reader) => {
    const tag = reader.take(limits.SWARM_TAG_BYTES);
    const count = reader.left / limits.HASH_BYTES;
    refuseUnless(count >= 1 && count <= limits.MAX_PULLED, "malformed");
    return { tag, hashes: times(count, () => reader.take(limits.HASH_BYTES)) };
  });
}

/** The reply with an envelope for each hash, an empty one for a group that is not held. */
export function pullReply(envelopes: Uint8Array[]): Uint8Array {
  return concat(...envelopes.flatMap((each) => [number(each.length, 4), each]));
}

export function readPullReply(bytes: Uint8Array, count: number): Uint8Array[] {
  return read(bytes, limits.MAX_PULL_REPLY_BYTES, (reader) =>
    times(count, () => {
      const length = reader.number(4);
      refuseUnless(length <= limits.MAX_MESSAGE_BYTES, "malformed");
      return reader.take(length);
    }),
  );
}

/** The request asks for cards with numbers above `number`. */
export function readCardRequest(bytes: Uint8Array): { network: Uint8Array; number: number } {
  return read(bytes, limits.MAX_CARD_REQUEST_BYTES, (reader) => {
    const network = reader.take(26);
    refuseUnless(network.every((byte) => byte < 128), "malformed");
    return { network, number: reader.number(4) };
  });
}

export function readCardReply(bytes: Uint8Array): Uint8Array[] {
  return read(bytes, limits.MAX_CARD_REPLY_BYTES, (reader) =>
    times(reader.number(1), () => {
      const length = reader.number(2);
      refuseUnless(length <= limits.MAX_CARD_BYTES, "malformed");
      return reader.take(length);
    }),
  );
}

export function hello(message: Hello): Uint8Array {
  return encoded(message);
}

export function readHello(bytes: Uint8Array): Hello {
  refuseUnless(bytes.length <= limits.MAX_HELLO_BYTES, "too big");
  const message = asHello(parse(bytes));
  refuseUnless(equal(encoded(message), bytes), "not canonical");
  return message;
}

export function readPunch(bytes: Uint8Array): Endpoint[] {
  return read(bytes, limits.MAX_PUNCH_BYTES, (reader) => {
    const count = reader.number(1); // more than two repeat a family, which is refused below
    const families = new Set<number>();
    return times(count, () => {
      const family = reader.number(1);
      refuseUnless((family === 4 || family === 6) && !families.has(family), "malformed");
      families.add(family);
      return { address: reader.take(family === 4 ? 4 : 16), port: reader.number(2) };
    });
  });
}

export function punch(endpoints: Endpoint[]): Uint8Array {
  const parts = endpoints.map(({ address, port }) => concat(number(address.length === 4 ? 4 : 6, 1), address, number(port, 2)));
  return concat(number(endpoints.length, 1), ...parts);
}

export const isOf = (swarm: string, tag: Uint8Array): boolean => equal(tag, swarmTag(swarm));

/** The card of a swarm: several signers sign it, and it is checked from card 1 on, whose hash names the network. */
import { base32, byBytes, equal, fromBase64url, joined, concat, sha256, utf8 } from "./bytes.js";
import { encode, encoded, parse } from "./canonical.js";
import { holds, keyOf } from "./identity.js";
import * as limits from "./limits.js";
import { bytes, checked, integer, isName, list, object, text, type Check, type Of } from "./messages.js";
import { Refused, refuseUnless } from "./refusal.js";

export const DAY = 86_400; // seconds
export const GRACE = DAY;
const ADDRESS = /^\/(?:ip4|ip6|dns|dns4|dns6)\/[A-Za-z0-9/._:-]{1,120}\/p2p\/[1-9A-HJ-NP-Za-km-z]{52}$/;
const SIGNATURE = /^[A-Za-z0-9_-]{85}[AQgw]$/;
const NETWORK = /^(?:[a-z2-7]{26})?$/;

const matches = (pattern: RegExp): Check<string> => (value): value is string => typeof value === "string" && pattern.test(value);
const isText = text(Infinity); // the size of the card bounds it
const some = <T>(each: Check<T>): Check<T[]> => list(each, Infinity);
const isNumber = integer(2 ** 37); // enough for a time in seconds since 1970

const isTask = object({ config_id: isName, dataset: isName, digest: bytes(limits.HOLDING_BYTES), environment: isName, version: isName });
const isOpen = object({
  bootstrap: some(matches(ADDRESS)),
  characters: isNumber,
  episodes: isNumber,
  expires: isNumber,
  format: integer(1, 1),
  issued: isNumber,
  name: isName,
  network: matches(NETWORK), // empty in card 1
  notes: isText,
  number: integer(limits.MAX_CARDS, 1),
  signers: some(isText),
  tasks: some(isTask),
  threshold: isNumber,
});
const areMembers = object({ admit: some(isText), chain: isNumber, revoked: some(isText) });
export type Card = Of<typeof isOpen> & { members?: Of<typeof areMembers> };
export const NOBODY: Of<typeof areMembers> = { admit: [], chain: 1, revoked: [] }; // of a swarm that everybody may join
const isCard: Check<Card> = (value): value is Card => {
  const { members = NOBODY, ...open } = Object(value);
  return isOpen(open) && areMembers(members);
};
const areSignatures: Check<Record<string, string>> = (value): value is Record<string, string> =>
  typeof value === "object" && value !== null && !Array.isArray(value) &&
  Object.entries(value).every(([key, each]) => isText(key) && matches(SIGNATURE)(each));
const isSignedCard = object({ card: isCard, signatures: areSignatures });
const asSigned = checked(isSignedCard, "no card, or cut off");
export type Signed = Of<typeof isSignedCard>;

const ascend = (texts: string[]): boolean => texts.every((each, i) => i === 0 || byBytes(texts[i - 1]!, each) < 0);
const within = (least: number, size: number, most: number): boolean => least <= size && size <= most;

/** A well-formed card. Its signatures are not checked yet. */
export function readCard(line: Uint8Array): Signed {
  refuseUnless(line.length <= limits.MAX_CARD_BYTES, "too big for a card");
  const signed = asSigned(parse(line, "no card, or cut off"));
  const { signers, bootstrap, tasks, threshold, episodes, characters, notes, issued, expires, members } = signed.card;
  const { admit, chain, revoked } = members ?? NOBODY;
  const names = tasks.map((task) => [task.environment, task.version, task.dataset, task.config_id].join("\0"));
  refuseUnless(equal(encoded(signed), line) && [names, signers, admit, revoked].every(ascend), "not canonical");
  const peers = [...signers, ...admit, ...revoked, ...bootstrap.map((address) => address.split("/p2p/").at(-1)!)];
  refuseUnless(peers.every((peer) => keyOf(peer) !== null), "names a key that is none");
  refuseUnless(
    signers.length <= limits.MAX_SIGNERS &&
      within(1, threshold, signers.length) &&
      within(members ? 1 : 0, admit.length, limits.MAX_SIGNERS) &&
      within(1, chain, limits.MAX_CERTIFICATES) &&
      revoked.length <= limits.MAX_REVOKED &&
      within(1, bootstrap.length, limits.MAX_CARD_ADDRESSES) &&
      within(1, tasks.length, limits.MAX_CARD_TASKS) &&
      within(limits.MIN_EPISODES, episodes, limits.MAX_EPISODES) &&
      within(1, characters, limits.MAX_EPISODE_CHARS) &&
      text(limits.MAX_NOTES_CHARS)(notes) &&
      within(DAY, expires - issued, limits.MAX_CARD_DAYS * DAY),
    "over the limits of a card",
  );
  return signed;
}

export function networkOf(card: Card): string {
  return card.network === "" ? base32(sha256(encoded(card)).subarray(0, 16)) : card.network;
}

/** Refuses a card that does not follow `last` by its number, its network and its signatures. */
function refuseUnlessNext({ card, signatures }: Signed, last: Card | null, network: string): void {
  refuseUnless(card.number === (last?.number ?? 0) + 1, "a card before it is missing");
  refuseUnless(networkOf(card) === network && (card.number === 1) === (card.network === ""), "of another network");
  const [own, old, by] = [new Set(card.signers), new Set(last?.signers), Object.keys(signatures)];
  const said = concat(joined("swarm-node/card", network, ""), encoded(card));
  const genuine = (peer: string): boolean => holds(keyOf(peer)!, fromBase64url(signatures[peer]!)!, said);
  refuseUnless(by.every((peer) => (own.has(peer) || old.has(peer)) && genuine(peer)), "a signature that none of its signers made");
  const count = (signers: Set<string>): number => by.filter((peer) => signers.has(peer)).length;
  refuseUnless(count(own) >= card.threshold, "too few signers");
  refuseUnless(last === null || count(old) >= last.threshold, "too few signers of the card before");
}

/** The newest of cards 1, 2, 3, ..., if all hold and it is in force at `now` (s). `known`: the card taken before. */
export function follow(lines: Uint8Array[], network: string, now: number, known: Card | null = null): Card {
  let last: Card | null = null;
  for (const line of lines) {
    const signed = readCard(line);
    refuseUnlessNext(signed, last, network);
    last = signed.card;
    refuseUnless(known?.number !== last.number || encode(known) === encode(last), "other than the card of that number known here");
  }
  if (last === null) throw new Refused("no card, or cut off");
  refuseUnless(known === null || last.number >= known.number, "older than the card known here");
  refuseUnless(now >= last.issued - GRACE, "not valid yet");
  refuseUnless(now < last.expires + GRACE, "expired");
  return last;
}

/** The parts between line breaks. */
export function linesOf(bytes: Uint8Array): Uint8Array[] {
  const text = Buffer.from(bytes).toString("latin1"); // a character for each byte
  return text === "" ? [] : text.split("\n").map((line) => new Uint8Array(Buffer.from(line, "latin1")));
}

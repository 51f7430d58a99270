/** Who is in a private swarm: a chain of certificates leads from a key that its card names to the member. */
import { concat, joined, Reader } from "./bytes.js";
import { DAY, GRACE, networkOf, NOBODY, type Card } from "./card.js";
import { holds, isKey, peerId } from "./identity.js";
import * as limits from "./limits.js";
import { refuseUnless } from "./refusal.js";

const [KEY, CERTIFICATE] = [32, 4 + 32 + 64]; // bytes; a certificate: when it ends, the key of its holder, a signature

/** When the membership of `holder` ends, by a private swarm's card. Both times are in seconds since 1970. */
export function judge(proof: Uint8Array, holder: string, card: Card, now: number): number {
  const size = (proof.length - KEY) / CERTIFICATE;
  refuseUnless(Number.isInteger(size) && size >= 1 && size <= limits.MAX_CERTIFICATES, "no proof of membership");
  const [reader, { admit, chain, revoked }] = [new Reader(proof), card.members ?? NOBODY];
  const first = reader.take(KEY);
  const certificates = Array.from({ length: size }, () => ({ said: reader.take(CERTIFICATE - 64), signature: reader.take(64) }));
  const keys = [first, ...certificates.map(({ said }) => said.subarray(4))];
  const peers = keys.map(peerId);
  const ends = certificates.map(({ said }) => new Reader(said).number(4));
  refuseUnless(peers.at(-1) === holder, "the proof of another");
  refuseUnless(size <= chain, "too many certificates");
  refuseUnless(admit.includes(peers[0]!), "by no key of the card");
  refuseUnless(!peers.some((peer) => revoked.includes(peer)), "revoked by the card");
  refuseUnless(Math.max(...ends) <= now + limits.MAX_MEMBER_DAYS * DAY + GRACE, "lasts too long");
  refuseUnless(now < Math.min(...ends) + GRACE, "membership ended");
  const domain = joined("swarm-node/member", networkOf(card), "");
  const genuine = certificates.map(({ said, signature }, i) => isKey(keys[i]!) && holds(keys[i]!, signature, concat(domain, said)));
  refuseUnless(genuine.every(Boolean), "forged certificate");
  return Math.min(...ends);
}

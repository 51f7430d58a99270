/** Seals messages, and admits those of other peers. The checks run in the order that the protocol gives. */
import { questionSeed } from "./addressing.js";
import { concat, equal, sha256 } from "./bytes.js";
import { encoded, parse, type Json } from "./canonical.js";
import { isSigned, keyOf, type Identity, type Kind } from "./identity.js";
import * as limits from "./limits.js";
import { asAnnouncement, asGroup, isSingle, written, type Announcement, type Group, type Question } from "./messages.js";
import { refuseUnless } from "./refusal.js";

export type Sealed<T> = { message: T; hash: Uint8Array; envelope: Uint8Array };

/** What a receiver accepts. `knows` says whether it can rebuild a question, and whether with the same digest. */
export type Rules = {
  swarm: string;
  receiver: string;
  maxEpisodes: number;
  maxEpisodeChars: number;
  knows: (question: Question) => "yes" | "unknown question" | "other environment";
};

export function seal<T extends Json>(kind: Kind, swarm: string, identity: Identity, message: T): Sealed<T> {
  const payload = encoded(message);
  return { message, hash: sha256(payload), envelope: concat(identity.sign(kind, swarm, payload), payload) };
}

/** The message in an envelope of at most `most` bytes. Refused unless it is in canonical form. */
function opened<T extends Json>(envelope: Uint8Array, most: number, as: (value: unknown) => T): Sealed<T> {
  refuseUnless(envelope.length <= most, "too big");
  const payload = envelope.subarray(limits.SIGNATURE_BYTES);
  const message = as(parse(payload));
  refuseUnless(equal(encoded(message), payload), "not canonical");
  return { message, hash: sha256(payload), envelope };
}

function refuseUnlessSigned(kind: Kind, swarm: string, author: string, envelope: Uint8Array): void {
  const key = keyOf(author);
  refuseUnless(key !== null, "bad author");
  const [signature, payload] = [envelope.subarray(0, limits.SIGNATURE_BYTES), envelope.subarray(limits.SIGNATURE_BYTES)];
  refuseUnless(isSigned(kind, swarm, key, signature, payload), "bad signature");
}

/** Admits a group of another peer. Refused if it breaks the protocol or the receiver's rules. */
export function admitGroup(envelope: Uint8Array, rules: Rules): Sealed<Group> {
  const found = opened(envelope, limits.MAX_MESSAGE_BYTES, asGroup);
  const { author, question, round, episodes } = found.message;
  refuseUnlessSigned("rollout-group", rules.swarm, author, envelope);
  refuseUnless(author !== rules.receiver, "local message");
  refuseUnless(question.seed === questionSeed(rules.swarm, author, round), "wrong seed");
  refuseUnless(episodes.length <= rules.maxEpisodes, "too many episodes");
  refuseUnless(episodes.every((episode) => written(episode) <= rules.maxEpisodeChars), "episode too long");
  refuseUnless(episodes.every(isSingle), "several turns");
  const known = rules.knows(question);
  refuseUnless(known !== "unknown question", "unknown question");
  refuseUnless(known !== "other environment", "other environment");
  return found;
}

export function admitAnnouncement(envelope: Uint8Array, swarm: string): Sealed<Announcement> {
  const found = opened(envelope, limits.MAX_ANNOUNCEMENT_BYTES, asAnnouncement);
  refuseUnlessSigned("announcement", swarm, found.message.author, envelope);
  return found;
}

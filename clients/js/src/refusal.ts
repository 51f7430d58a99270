/** Why bytes of a peer are refused. Checks of what a peer sent throw `Refused` and nothing else. */
export type Reason =
  | "too big"
  | "replayed"
  | "malformed"
  | "not canonical"
  | "bad author"
  | "bad signature"
  | "local message"
  | "wrong seed"
  | "too many episodes"
  | "episode too long"
  | "several turns"
  | "unknown question"
  | "other environment"
  | CardReason
  | MemberReason;

/** Why a card is not taken, in the order of the checks. */
type CardReason =
  | "too big for a card"
  | "no card, or cut off"
  | "names a key that is none"
  | "over the limits of a card"
  | "a card before it is missing"
  | "of another network"
  | "a signature that none of its signers made"
  | "too few signers"
  | "too few signers of the card before"
  | "older than the card known here"
  | "other than the card of that number known here"
  | "not valid yet"
  | "expired";

/** Why a proof of membership is not taken, in the order of the checks. */
type MemberReason =
  | "no proof of membership"
  | "the proof of another"
  | "too many certificates"
  | "by no key of the card"
  | "revoked by the card"
  | "lasts too long"
  | "membership ended"
  | "forged certificate";

export class Refused extends Error {
  constructor(readonly reason: Reason) {
    super(reason);
  }
}

export function refuseUnless(holds: boolean, reason: Reason): asserts holds {
  if (!holds) throw new Refused(reason);
}

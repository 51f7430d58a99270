/** Why bytes of a peer are refused. Nothing else is ever thrown for what a peer sent. */
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
  | "other environment";

export class Refused extends Error {
  constructor(readonly reason: Reason) {
    super(reason);
  }
}

export function refuseUnless(holds: boolean, reason: Reason): asserts holds {
  if (!holds) throw new Refused(reason);
}

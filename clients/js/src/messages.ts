/** The messages, and the checks of their values. All fields are required, and there are no others. */
import { fromBase64url } from "./bytes.js";
import type { Json } from "./canonical.js";
import * as limits from "./limits.js";
import { refuseUnless, type Reason } from "./refusal.js";

export type Check<T = unknown> = (value: unknown) => value is T;
/** The type of the values that pass a check. */
export type Of<C> = C extends Check<infer T> ? T : never;

const NAME = /^[A-Za-z0-9._+-]+$/;
const ADDRESS = /^\/(?:ip4|ip6|dns|dns4|dns6)\/[A-Za-z0-9/._:-]+$/;

/** The number of code points. `text` refuses lone surrogates. */
export function characters(text: string): number {
  let count = 0;
  for (const _ of text) count += 1;
  return count;
}

export const text = (most: number): Check<string> => (value): value is string =>
  typeof value === "string" && value.isWellFormed() && characters(value) <= most;
export const integer = (most: number, least = 0): Check<number> => (value): value is number =>
  Number.isSafeInteger(value) && (value as number) >= least && (value as number) <= most;
export const list = <T>(each: Check<T>, most: number, fewest = 0): Check<T[]> => (value): value is T[] =>
  Array.isArray(value) && value.length >= fewest && value.length <= most && value.every(each);
export const bytes = (size: number): Check<string> => (value): value is string =>
  typeof value === "string" && fromBase64url(value)?.length === size;
export const object = <F extends Record<string, Check>>(fields: F) => (value: unknown): value is { [K in keyof F]: Of<F[K]> } => {
  const known = Object.entries(fields); // a missing field passes no check
  return Object.keys(Object(value)).length === known.length && known.every(([key, check]) => check((value as Record<string, unknown>)[key]));
};

export const isName: Check<string> = (value): value is string =>
  typeof value === "string" && value.length <= limits.MAX_NAME_CHARS && NAME.test(value);
const isAuthor = text(limits.MAX_NAME_CHARS); // admission checks later that this is a peer id
const isBoolean: Check<boolean> = (value) => typeof value === "boolean";
const isAddress: Check<string> = (value): value is string =>
  typeof value === "string" && value.length <= limits.MAX_ADDRESS_CHARS && ADDRESS.test(value);

const isQuestion = object({
  config_id: isName,
  dataset: isName,
  digest: bytes(limits.HOLDING_BYTES),
  environment: isName,
  index: integer(limits.MAX_QUESTIONS_PER_ROUND - 1),
  seed: integer(limits.MAX_SEED),
  version: isName,
});
const isCall = object({ arguments: text(limits.MAX_ARGUMENT_CHARS), name: isName });
const isTurn = object({ calls: list(isCall, limits.MAX_CALLS), text: text(Infinity) }); // isEpisode bounds the text
const isTrace: Check<string> = (value): value is string => value === "" || bytes(limits.HOLDING_BYTES)(value);
const hasShapeOfEpisode = object({ ended: isBoolean, trace: isTrace, turns: list(isTurn, limits.MAX_TURNS, 1) });
const isEpisode = (value: unknown): value is Episode => {
  if (!hasShapeOfEpisode(value)) return false;
  return written(value) <= limits.MAX_EPISODE_CHARS && (value.trace === "") === isSingle(value);
};
const isGroup = object({
  author: isAuthor,
  episodes: list(isEpisode, limits.MAX_EPISODES, limits.MIN_EPISODES),
  question: isQuestion,
  round: integer(limits.MAX_ROUND),
});
const isAnnouncement = object({
  addresses: list(isAddress, limits.MAX_ADDRESSES),
  author: isAuthor,
  groups: list(bytes(limits.HASH_BYTES), limits.MAX_ANNOUNCED_GROUPS),
  held: list(bytes(limits.HOLDING_BYTES), limits.MAX_ANNOUNCED_HOLDINGS),
  round: integer(limits.MAX_ROUND),
  seq: integer(limits.MAX_SEQUENCE),
});
const isHello = object({ swarm: isName, versions: list(integer(limits.MAX_VERSION), limits.MAX_HELLO_VERSIONS, 1) });

export type Question = Of<typeof isQuestion>;
export type Episode = Of<typeof hasShapeOfEpisode>;
export type Group = Of<typeof isGroup>;
export type Announcement = Of<typeof isAnnouncement>;
export type Hello = Of<typeof isHello>;

/** The number of characters of all texts and arguments of an episode. */
export function written(episode: Episode): number {
  return episode.turns
    .flatMap((turn) => [turn.text, ...turn.calls.map((call) => call.arguments)])
    .reduce((sum, each) => sum + characters(each), 0);
}

/** Whether an episode is a plain completion: one turn without calls. */
export function isSingle(episode: Episode): boolean {
  return episode.turns.length === 1 && episode.turns[0]!.calls.length === 0;
}

export const checked = <T>(check: Check<T>, otherwise: Reason = "malformed") => (value: unknown): T => {
  refuseUnless(check(value), otherwise);
  return value;
};

/** These return the value as a message, or refuse it as `malformed`. */
export const asGroup = checked(isGroup);
export const asAnnouncement = checked(isAnnouncement);
export const asHello = checked(isHello);

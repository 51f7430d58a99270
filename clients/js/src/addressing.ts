/** Derived values: seeds, tags and digests. */
import { joined, base64url, concat, sha256, utf8 } from "./bytes.js";
import { encoded, type Json } from "./canonical.js";
import * as limits from "./limits.js";

const HELD_OUT_SHARE = 64; // of 256: a quarter

const modulo = (hash: Uint8Array): number => Buffer.from(hash).readUInt32BE(0) % 2 ** 31;

/** The seeds that no node trains on. */
const evaluationSeeds = Array.from({ length: limits.EVALUATION_ROUNDS }, (_, round) => evaluationSeed("evaluation", round));

export function evaluationSeed(purpose: string, round: number): number {
  return modulo(sha256(joined("swarm-node/1/question-seed", purpose, String(round))));
}

export function isHeldOut(seed: number): boolean {
  return evaluationSeeds.some((each) => Math.abs(each - seed) <= limits.EVALUATION_DISTANCE);
}

/** Whether a question is held out for evaluations because of its text. */
export function isHeldOutText(prompt: string): boolean {
  return sha256(utf8(prompt))[0]! < HELD_OUT_SHARE;
}

/** The seed of all questions of an author's round. */
export function questionSeed(swarm: string, author: string, round: number): number {
  let hashed = joined(`swarm-node/${limits.VERSION}/question-seed`, swarm, author, String(round));
  let seed = modulo(sha256(hashed));
  while (isHeldOut(seed)) {
    hashed = concat(hashed, Uint8Array.of(0));
    seed = modulo(sha256(hashed));
  }
  return seed;
}

export function swarmTag(swarm: string): Uint8Array {
  return sha256(joined(`swarm-node/${limits.VERSION}/swarm`, swarm)).subarray(0, limits.SWARM_TAG_BYTES);
}

export function keyTag(key: Uint8Array): Uint8Array {
  return key.subarray(key.length - limits.KEY_TAG_BYTES);
}

/** The digest of a behaviour: of four questions, the prompt and the scores of the empty text and of "0". */
export function environmentDigest(salt: string, behaviour: Json): string {
  const head = joined(`swarm-node/${limits.VERSION}/environment`, salt, "");
  return base64url(sha256(head, encoded(behaviour)).subarray(0, limits.HOLDING_BYTES));
}

/** The trace of a transcript: [opening, [[reply, ...], ...], done]. */
export function traceOf(transcript: Json): string {
  const head = utf8(`swarm-node/${limits.VERSION}/transcript\0`);
  return base64url(sha256(head, encoded(transcript)).subarray(0, limits.HOLDING_BYTES));
}

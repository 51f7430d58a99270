/** Reads every vector of protocol/vectors, or of the folder that SWARM_NODE_VECTORS names. */
import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { isDeepStrictEqual } from "node:util";
import { environmentDigest, evaluationSeed, isHeldOut, isHeldOutText, questionSeed, swarmTag, traceOf } from "../src/addressing.js";
import { admitAnnouncement, admitGroup, type Rules } from "../src/admission.js";
import { concat, equal, hex, sha256 } from "../src/bytes.js";
import { encoded, parse, type Json } from "../src/canonical.js";
import { follow, linesOf, type Card } from "../src/card.js";
import { Gate, isNamed } from "../src/gate.js";
import { Identity, isKey, isSigned, keyOf, peerId, type Kind } from "../src/identity.js";
import * as limits from "../src/limits.js";
import { judge } from "../src/member.js";
import { asAnnouncement, asGroup, asHello, isName, type Question } from "../src/messages.js";
import { Refused, refuseUnless } from "../src/refusal.js";
import * as wire from "../src/wire.js";

type Part = string | { base: [number, number] } | { repeat: [string, number] };
type Fields = Record<string, any>;

const CLIENT = join(import.meta.dirname, import.meta.filename.endsWith(".ts") ? ".." : "../..");
const FOLDER = process.env["SWARM_NODE_VECTORS"] ?? join(CLIENT, "../../protocol/vectors");
const MOST_CPU = 1_000_000; // us, for any input
const KINDS: Record<string, (value: unknown) => Json> = {
  "rollout-group": asGroup,
  announcement: asAnnouncement,
  hello: asHello,
};

const bytes = (text: string): Uint8Array => new Uint8Array(Buffer.from(text, "hex"));

function input(parts: string | Part[], base: Uint8Array): Uint8Array {
  if (typeof parts === "string") return bytes(parts);
  const joined = parts.map((part) => {
    if (typeof part === "string") return bytes(part);
    if ("base" in part) return base.subarray(...part.base);
    const [text, count] = part.repeat;
    return bytes(text.repeat(count));
  });
  return concat(...joined);
}

function text(given: Uint8Array): string {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(given);
  } catch {
    throw new Refused("malformed");
  }
}

/** The canonical form of a message in any spelling. Refused if it does not fit into an envelope. */
function spelled(given: Uint8Array, kind: string): Uint8Array {
  const payload = encoded(KINDS[kind]!(parse(given)));
  refuseUnless(payload.length + limits.SIGNATURE_BYTES <= limits.MAX_MESSAGE_BYTES, "too big");
  return payload;
}

function rulesOf(fields: Fields): Rules {
  const keys = ["environment", "version", "dataset", "config_id"] as const;
  return {
    swarm: fields["swarm"],
    receiver: fields["receiver"],
    maxEpisodes: fields["maxEpisodes"] ?? limits.MAX_EPISODES,
    maxEpisodeChars: fields["maxEpisodeChars"] ?? limits.MAX_EPISODE_CHARS,
    knows: (question: Question) => {
      const same = fields["known"].filter((each: Fields) => keys.every((key) => each[key] === question[key]));
      if (same.length === 0) return "unknown question";
      return same.some((each: Fields) => each["digest"] === undefined || each["digest"] === question.digest) ? "yes" : "other environment";
    },
  };
}

/** What an implementation makes of an input, by the type of its vector. */
const RUN: Record<string, (given: Uint8Array, fields: Fields) => unknown> = {
  payload: (given, { kind }) => {
    refuseUnless(given.length + limits.SIGNATURE_BYTES <= limits.MAX_MESSAGE_BYTES, "too big");
    const message = KINDS[kind]!(parse(given));
    refuseUnless(equal(encoded(message), given), "not canonical");
    return hex(sha256(given));
  },
  message: (given, { kind }) => hex(sha256(spelled(given, kind))),
  "rollout-group": (given, fields) => hex(admitGroup(given, rulesOf(fields)).hash),
  announcement: (given, { swarm }) => hex(admitAnnouncement(given, swarm).hash),
  signature: (given, { author, kind, swarm }) => {
    const key = keyOf(author);
    refuseUnless(key !== null, "bad author");
    const [signature, payload] = [given.subarray(0, limits.SIGNATURE_BYTES), given.subarray(limits.SIGNATURE_BYTES)];
    refuseUnless(isSigned(kind as Kind, swarm, key, signature, payload), "bad signature");
    return undefined;
  },
  "peer-id": (given) => {
    const key = keyOf(text(given));
    refuseUnless(key !== null, "bad author");
    return hex(key);
  },
  "public-key": (given) => {
    refuseUnless(isKey(given), "malformed");
    return peerId(given);
  },
  "key-file": (given) => Identity.fromFile(given).peer,
  "swarm-name": (given) => {
    const name = text(given);
    refuseUnless(isName(name), "malformed");
    return hex(swarmTag(name));
  },
  "question-seed": (_, { swarm, author, round }) => questionSeed(swarm, author, round),
  "fixed-seed": (_, { author, round }) => evaluationSeed(author, round),
  "held-out-seed": (_, { seed }) => isHeldOut(seed),
  "held-out-text": (given) => isHeldOutText(text(given)),
  "environment-digest": (given, { salt }) => environmentDigest(salt, parse(given) as Json),
  transcript: (given) => traceOf(parse(given) as Json),
  "exchange-request": (given) => {
    const { tag, limit, digest, announcement } = wire.readExchangeRequest(given);
    const known = Object.fromEntries(digest.map(({ key, seq }) => [hex(key), seq]));
    return { tag: hex(tag), limit, digest: known, announcement: hex(announcement) };
  },
  "exchange-reply": (given) =>
    wire.readExchangeReply(given).map(({ age, announcement }) => ({ age, sealed: hex(announcement) })),
  "pull-request": (given) => {
    const { tag, hashes } = wire.readPullRequest(given);
    return { tag: hex(tag), hashes: hashes.map(hex) };
  },
  "pull-reply": (given, { count }) => wire.readPullReply(given, count).map(hex),
  punch: (given) => wire.readPunch(given).map(({ address, port }) => ({ ip: hex(address), port })),
  "card-request": (given) => {
    const { network, number } = wire.readCardRequest(given);
    return { network: text(network), number };
  },
  "card-reply": (given) => wire.readCardReply(given).map(hex),
  hello: (given) => wire.readHello(given),
  dials: (_, { given, listens, networks, steps }) => {
    const gate = new Gate(given, listens, () => networks);
    return steps.map(({ at, address, then, where }: Fields) => {
      if (isNamed(address) && !gate.isGiven(address)) return gate.mayLookUp(at);
      if (gate.objection(address, at) !== null) return false;
      if (then === "fails") gate.failed(address, at);
      if (then === "answers") gate.answered(address, where ?? address, at);
      return true;
    });
  },
  card: (given, { network, now, newest }) => {
    const known = newest === undefined ? null : (parse(bytes(newest)) as Card);
    return hex(sha256(encoded(follow(linesOf(given), network, now, known))));
  },
  member: (given, { holder, card, now }) => judge(given, holder, parse(bytes(card)) as Card, now),
};

/** How this client misreads a vector; null where it reads it as the vector says. */
function misread(fields: Fields, given: Uint8Array): string | null {
  const began = process.cpuUsage();
  try {
    const output = RUN[fields["type"]]!(given, fields);
    if (fields["result"] !== "valid") return `taken, but ${fields["reasons"]} is right`;
    if ("output" in fields && !isDeepStrictEqual(output, fields["output"])) return `read as ${JSON.stringify(output)}`;
  } catch (error) {
    if (!(error instanceof Refused)) return `raised ${error}`;
    if (fields["result"] === "valid" || !fields["reasons"].includes(error.reason)) return `refused as ${error.reason}`;
  }
  const { user, system } = process.cpuUsage(began);
  return user + system < MOST_CPU ? null : `took ${user + system} us`;
}

/** Yields the vectors of a file that are misread, and returns how many vectors the file has. */
function* read(file: string): Generator<string, number> {
  const { testGroups, numberOfTests } = JSON.parse(readFileSync(join(FOLDER, file), "utf8"));
  for (const { tests, ...group } of testGroups) {
    for (const each of tests) {
      const why = misread({ ...group, ...each }, input(each.input, bytes(group.base ?? "")));
      if (why !== null) yield `${file} ${each.tcId}: ${each.comment}: ${why}`;
    }
  }
  assert.equal(testGroups.flatMap(({ tests }: Fields) => tests).length, numberOfTests);
  return numberOfTests;
}

const files = readdirSync(FOLDER).filter((name) => name.endsWith(".json"));

/** The first vector that is misread; undefined where none is. For deletions.mjs, which imports this file with a query. */
export function first(): string | undefined {
  for (const file of files) for (const what of read(file)) return what;
}

if (!import.meta.url.includes("?")) for (const file of files) test(file, () => assert.deepEqual([...read(file)], []));

/** Peer ids, key files and signatures. */
import { createPrivateKey, createPublicKey, generateKeyPairSync, sign, verify, type KeyObject } from "node:crypto";
import { base58, base64url, concat, equal, fromBase58, fromBase64url, joined } from "./bytes.js";
import { PEER_ID_CHARS, VERSION } from "./limits.js";
import { refuseUnless } from "./refusal.js";

export type Kind = "rollout-group" | "announcement";

const ID_HEAD = Uint8Array.of(0x00, 0x24, 0x08, 0x01, 0x12, 0x20);
const KEY_FILE_HEAD = Uint8Array.of(0x08, 0x01, 0x12, 0x40);
const FIELD = 2n ** 255n - 19n;
const EIGHTH = 0x7a03ac9277fdc74ec6cc392cfa53202a0f67100d760b3cba4fd84d3d706a17c7n; // y of a point of order 8
const WEAK = new Set([0n, 1n, FIELD - 1n, EIGHTH, FIELD - EIGHTH]); // y of the points of order 1, 2, 4 and 8

const little = (bytes: Uint8Array): bigint => BigInt(`0x${Buffer.from(bytes).reverse().toString("hex")}`);

/** Whether a peer may have this key: its point is encoded canonically, and is not one that anybody can sign for. */
export function isKey(key: Uint8Array): boolean {
  if (key.length !== 32) return false;
  const y = little(key) & (2n ** 255n - 1n);
  return y < FIELD && !WEAK.has(y);
}

export function peerId(key: Uint8Array): string {
  return base58(concat(ID_HEAD, key));
}

/** The key in a peer id; null where the id is not valid. */
export function keyOf(id: string): Uint8Array | null {
  if (id.length !== PEER_ID_CHARS) return null;
  const key = fromBase58(id).subarray(ID_HEAD.length);
  return isKey(key) && peerId(key) === id ? key : null;
}

const signed = (kind: Kind, swarm: string, payload: Uint8Array): Uint8Array =>
  concat(joined(`swarm-node/${VERSION}/${kind}`, swarm, ""), payload);

export function isSigned(kind: Kind, swarm: string, author: Uint8Array, signature: Uint8Array, payload: Uint8Array): boolean {
  return holds(author, signature, signed(kind, swarm, payload));
}

/**
 * Whether the signature of `text` is by `author`, a valid key. OpenSSL checks its size, that S is below the order, and
 * the plain equation, as the protocol demands; libraries that multiply by the cofactor do not.
 */
export function holds(author: Uint8Array, signature: Uint8Array, text: Uint8Array): boolean {
  const key = createPublicKey({ key: { kty: "OKP", crv: "Ed25519", x: base64url(author) }, format: "jwk" });
  return verify(null, text, key, signature);
}

export class Identity {
  readonly peer: string;

  private constructor(private readonly secret: KeyObject, readonly key: Uint8Array, readonly seed: Uint8Array) {
    this.peer = peerId(key);
  }

  static create(): Identity {
    return Identity.ofSecret(generateKeyPairSync("ed25519").privateKey);
  }

  static fromSeed(seed: Uint8Array): Identity {
    const head = Buffer.from("302e020100300506032b657004220420", "hex"); // PKCS 8 around an Ed25519 seed, RFC 8410
    return Identity.ofSecret(createPrivateKey({ key: Buffer.concat([head, seed]), format: "der", type: "pkcs8" }));
  }

  /** Reads a key file. Other bytes are refused as `malformed`. */
  static fromFile(bytes: Uint8Array): Identity {
    refuseUnless(bytes.length === 68 && equal(bytes.subarray(0, 4), KEY_FILE_HEAD), "malformed");
    const identity = Identity.fromSeed(bytes.subarray(4, 36));
    refuseUnless(equal(identity.key, bytes.subarray(36)), "malformed");
    return identity;
  }

  toFile(): Uint8Array {
    return concat(KEY_FILE_HEAD, this.seed, this.key);
  }

  sign(kind: Kind, swarm: string, payload: Uint8Array): Uint8Array {
    return new Uint8Array(sign(null, signed(kind, swarm, payload), this.secret));
  }

  private static ofSecret(secret: KeyObject): Identity {
    const { x, d } = secret.export({ format: "jwk" });
    return new Identity(secret, fromBase64url(x!)!, fromBase64url(d!)!);
  }
}

/** A peer of a swarm: it finds other peers, pulls their groups, and serves its own groups. */
import { noise } from "@chainsafe/libp2p-noise";
import { yamux } from "@chainsafe/libp2p-yamux";
import { privateKeyFromRaw } from "@libp2p/crypto/keys";
import { identify, type Identify } from "@libp2p/identify";
import type { Connection, Libp2p, Stream } from "@libp2p/interface";
import { tcp } from "@libp2p/tcp";
import { multiaddr } from "@multiformats/multiaddr";
import { createLibp2p } from "libp2p";
import { lookup } from "node:dns/promises";
import { networkInterfaces } from "node:os";
import { keyTag, questionSeed, swarmTag } from "./addressing.js";
import { admitAnnouncement, admitGroup, seal, type Rules, type Sealed } from "./admission.js";
import { base64url, concat, equal, fromBase64url, hex, sha256 } from "./bytes.js";
import { Gate, Held, isNamed, targetOf } from "./gate.js";
import { keyOf, type Identity } from "./identity.js";
import * as limits from "./limits.js";
import type { Announcement, Episode, Group, Hello, Question } from "./messages.js";
import { Refused, type Reason } from "./refusal.js";
import { call, serve } from "./stream.js";
import * as wire from "./wire.js";

const KEPT_ROUNDS = 3;
const KEPT_MS = 60_000; // at least, even if KEPT_ROUNDS rounds have passed
const MOST_PEERS = 64;
const CALL_MS = 20_000;
const DIAL_MS = 5_000; // for an address of others: what a dial costs is measured over this time
const LOOKUP_MS = 2_000;
const MOST_SEEN = 4_096; // groups whose hashes are remembered
const BAN_MS = 3_600_000; // an hour
// Calls that one peer may make: a burst, and after it so many a second.
const RATES: Record<string, [burst: number, perSecond: number]> = {
  [wire.HELLO]: [5, 0.1],
  [wire.EXCHANGE]: [10, 1],
  [wire.PULL]: [20, 2],
};

type Heard = Sealed<Announcement> & { made: number }; // when the author made it, ms of this clock
type Served = { envelope: Uint8Array; round: number; until: number };
export type Asked = Omit<Question, "seed" | "index">;

export class Peer {
  /** The newest announcements by peer id, none older than the protocol allows. */
  readonly heard = new Map<string, Heard>();
  readonly refused = new Map<Reason, number>();
  served = 0; // groups that others pulled here

  private readonly own = new Map<string, Served>(); // by content hash, hex
  private readonly seen = new Set<string>();
  private readonly sequences = new Map<string, { seq: number; at: number }>(); // the last of each author, for an hour
  private readonly banned = new Map<string, number>(); // until when, in ms
  private readonly calls = new Map<string, { left: number; at: number }>();
  private latest: Sealed<Announcement> | null = null;
  private latestMade = 0;
  private round = -1;
  private sequence = 0;

  private constructor(
    readonly identity: Identity,
    readonly swarm: string,
    private readonly node: Libp2p<{ identify: Identify }>,
    private readonly rules: Rules,
    private readonly gate: Gate,
    private readonly dialled: Set<string>, // addresses that the library may dial at this moment
  ) {}

  /**
   * `listen`: multiaddrs, such as /ip4/0.0.0.0/tcp/0; none for a peer that only reads. `given`: full multiaddrs that this
   * peer's user named; all others pass the gate.
   */
  static async start(
    identity: Identity,
    swarm: string,
    listen: string[],
    wants: Partial<Rules> = {},
    given: string[] = [],
  ): Promise<Peer> {
    const dialled = new Set<string>();
    const gate = new Gate(given, listen.length === 1 ? (targetOf(listen[0]!)?.ip ?? "") : "", ownNetworks);
    const node = await createLibp2p({
      privateKey: privateKeyFromRaw(concat(identity.seed, identity.key)),
      addresses: { listen },
      transports: [tcp()],
      connectionEncrypters: [noise()],
      streamMuxers: [yamux()],
      services: { identify: identify() },
      connectionGater: { denyDialMultiaddr: (address) => !dialled.has(String(address)) },
    });
    const rules: Rules = {
      swarm,
      receiver: identity.peer,
      maxEpisodes: limits.MAX_EPISODES,
      maxEpisodeChars: limits.MAX_EPISODE_CHARS,
      knows: () => "yes", // this client shows groups and does not score them
      ...wants,
    };
    const peer = new Peer(identity, swarm, node, rules, gate, dialled);
    await peer.answer(wire.HELLO, limits.MAX_HELLO_BYTES, () => wire.hello(peer.hello));
    await peer.answer(wire.EXCHANGE, limits.MAX_EXCHANGE_REQUEST_BYTES, (request, from) => peer.exchanged(request, from));
    await peer.answer(wire.PULL, limits.MAX_PULL_REQUEST_BYTES, (request) => peer.pulled(request));
    return peer;
  }

  async stop(): Promise<void> {
    await this.node.stop();
  }

  /** Full multiaddrs at which others reach this peer. */
  get addresses(): string[] {
    return this.node.getMultiaddrs().map(String);
  }

  private get hello(): Hello {
    return { swarm: this.swarm, versions: [limits.VERSION] };
  }

  /** Why a peer does not share with this one, in words, by its Hello; null where nothing is wrong. */
  async difference(address: string): Promise<string | null> {
    const reply = await this.call(address, wire.HELLO, wire.hello(this.hello), limits.MAX_HELLO_BYTES);
    if (reply.length === 0) return "it was asked too often";
    const { swarm, versions } = wire.readHello(reply);
    if (!versions.includes(limits.VERSION)) return `it speaks versions ${versions.join(", ")}, this peer ${limits.VERSION}`;
    return swarm === this.swarm ? null : `it is of the swarm ${swarm}, this peer of ${this.swarm}`;
  }

  /** Exchanges announcements with a peer. Returns whether it answered. `refused` counts what it sent wrongly. */
  async exchange(address: string): Promise<boolean> {
    this.forget();
    const began = Date.now();
    const digest = [...this.heard.values()].map(({ message }) => ({ key: keyTag(keyOf(message.author)!), seq: message.seq }));
    const request = wire.exchangeRequest({
      tag: swarmTag(this.swarm),
      limit: limits.MAX_EXCHANGED,
      digest: digest.slice(0, limits.MAX_DIGEST),
      announcement: this.latest?.envelope ?? new Uint8Array(),
    });
    const reply = await this.call(address, wire.EXCHANGE, request, limits.MAX_EXCHANGE_REPLY_BYTES);
    if (reply.length === 0) return false;
    this.counted(() => {
      for (const { age, announcement } of wire.readExchangeReply(reply)) this.take(announcement, began - 100 * age);
    });
    return true;
  }

  /**
   * Pulls the groups that this peer has not seen. `addresses`: full multiaddrs of one peer, which is banned if it sends
   * wrong or forged ones.
   */
  async pull(addresses: string | string[], hashes: string[]): Promise<Sealed<Group>[]> {
    const from = peerOf(addresses);
    const wanted = hashes.filter((hash) => !this.seen.has(hash)).slice(0, limits.MAX_PULLED);
    if (wanted.length === 0) return [];
    const asked = wanted.map((hash) => fromBase64url(hash)!);
    const request = wire.pullRequest({ tag: swarmTag(this.swarm), hashes: asked });
    const reply = await this.call(addresses, wire.PULL, request, limits.MAX_PULL_REPLY_BYTES);
    if (reply.length === 0) return [];
    const found: Sealed<Group>[] = [];
    const envelopes = this.counted(() => wire.readPullReply(reply, asked.length)) ?? [];
    envelopes.forEach((envelope, i) => {
      if (envelope.length === 0) return;
      this.remember(wanted[i]!);
      const isAsked = equal(sha256(envelope.subarray(limits.SIGNATURE_BYTES)), asked[i]!);
      const group = isAsked ? this.counted(() => admitGroup(envelope, this.rules), from) : this.ban(from);
      if (group) found.push(group);
    });
    return found;
  }

  /** Signs a round of groups, each of one question, and serves them from now on. */
  publish(round: { asked: Asked; episodes: Episode[] }[]): Sealed<Group>[] {
    this.round += 1;
    const [author, until] = [this.identity.peer, Date.now() + KEPT_MS];
    const seed = questionSeed(this.swarm, author, this.round);
    const groups = round.map(({ asked, episodes }, index) =>
      seal<Group>("rollout-group", this.swarm, this.identity, { author, episodes, question: { ...asked, index, seed }, round: this.round }),
    );
    for (const { hash, envelope } of groups) this.own.set(hex(hash), { envelope, round: this.round, until });
    for (const [hash, { round: made, until: end }] of this.own) {
      if (made <= this.round - KEPT_ROUNDS && end < Date.now()) this.own.delete(hash);
    }
    this.announce(groups.map(({ hash }) => base64url(hash)));
    return groups;
  }

  private announce(groups: string[]): void {
    this.sequence += 1;
    const addresses = this.addresses.map((each) => each.replace(/\/p2p\/[^/]*$/, "")).slice(0, limits.MAX_ADDRESSES);
    this.latest = seal<Announcement>("announcement", this.swarm, this.identity, {
      addresses,
      author: this.identity.peer,
      groups: groups.slice(0, limits.MAX_ANNOUNCED_GROUPS),
      held: [],
      round: Math.max(0, this.round),
      seq: this.sequence,
    });
    this.latestMade = Date.now();
  }

  // Calls of other peers

  private async answer(protocol: string, most: number, reply: (request: Uint8Array, from: string) => Uint8Array): Promise<void> {
    await this.node.handle(protocol, (stream: Stream, connection: Connection) => {
      const from = connection.remotePeer.toString();
      return serve(stream, most, (request) => {
        if (!this.mayCall(protocol, from)) return new Uint8Array();
        return this.counted(() => reply(request, from)) ?? new Uint8Array();
      });
    });
  }

  private exchanged(request: Uint8Array, from: string): Uint8Array {
    const { tag, limit, digest, announcement } = wire.readExchangeRequest(request);
    if (!wire.isOf(this.swarm, tag)) return new Uint8Array();
    if (announcement.length) this.take(announcement, Date.now(), from);
    this.forget();
    const known = new Map(digest.map(({ key, seq }) => [hex(key), seq]));
    const all = [...this.heard.values()];
    if (this.latest) all.unshift({ ...this.latest, made: this.latestMade });
    const wanted = all.filter(({ message }) => (known.get(hex(keyTag(keyOf(message.author)!))) ?? -1) < message.seq);
    const aged = wanted.slice(0, Math.min(limit, limits.MAX_EXCHANGED)).map(({ envelope, made }) => ({
      age: Math.min(limits.MAX_AGE_DECISECONDS, Math.ceil((Date.now() - made) / 100)),
      announcement: envelope,
    }));
    return wire.exchangeReply(aged);
  }

  private pulled(request: Uint8Array): Uint8Array {
    const { tag, hashes } = wire.readPullRequest(request);
    if (!wire.isOf(this.swarm, tag)) return new Uint8Array();
    const envelopes = hashes.map((hash) => this.own.get(hex(hash))?.envelope ?? new Uint8Array());
    this.served += envelopes.filter((each) => each.length > 0).length;
    return wire.pullReply(envelopes);
  }

  private mayCall(protocol: string, from: string): boolean {
    const [burst, perSecond] = RATES[protocol]!;
    const [key, now] = [`${protocol} ${from}`, Date.now()];
    const before = this.calls.get(key) ?? { left: burst, at: now };
    const left = Math.min(burst, before.left + (perSecond * (now - before.at)) / 1000);
    if (this.calls.size > MOST_SEEN) this.calls.clear();
    this.calls.set(key, { left: left >= 1 ? left - 1 : left, at: now });
    return left >= 1 && (this.banned.get(from) ?? 0) < now;
  }

  // What other peers sent

  /** Keeps an announcement that is newer than the last of its author. `from`: the only author that it may have. */
  private take(envelope: Uint8Array, made: number, from?: string): void {
    const found = this.counted(() => admitAnnouncement(envelope, this.swarm));
    if (!found || (from !== undefined && found.message.author !== from)) return;
    const { author, seq } = found.message;
    if (author === this.identity.peer) {
      this.sequence = Math.max(this.sequence, seq); // this peer used it in an earlier start
      return;
    }
    const before = this.sequences.get(author)?.seq;
    if (before !== undefined && (seq <= before || seq > before + limits.MAX_SEQUENCE_JUMP)) return;
    if (Date.now() - made > 1000 * limits.MAX_AGE_SECONDS) return;
    if (!this.heard.has(author) && this.heard.size >= MOST_PEERS) return;
    this.sequences.set(author, { seq, at: Date.now() });
    this.heard.set(author, { ...found, made });
  }

  private forget(): void {
    const oldest = Date.now() - 1000 * limits.MAX_AGE_SECONDS;
    for (const [author, { made }] of this.heard) if (made < oldest) this.heard.delete(author);
    for (const [author, { at }] of this.sequences) if (at < Date.now() - BAN_MS) this.sequences.delete(author);
  }

  private remember(hash: string): void {
    if (this.seen.size >= MOST_SEEN) this.seen.delete(this.seen.values().next().value!);
    this.seen.add(hash);
  }

  /** The result of `work`. If it refuses bytes, counts the reason, bans the `sender` of a forgery, and returns null. */
  private counted<T>(work: () => T, sender?: string): T | null {
    try {
      return work();
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      this.refused.set(error.reason, (this.refused.get(error.reason) ?? 0) + 1);
      if (sender !== undefined && (error.reason === "bad signature" || error.reason === "bad author")) this.ban(sender);
      return null;
    }
  }

  private ban(peer: string): null {
    this.banned.set(peer, Date.now() + BAN_MS);
    return null;
  }

  private async call(addresses: string | string[], protocol: string, request: Uint8Array, most: number): Promise<Uint8Array> {
    if ((this.banned.get(peerOf(addresses)) ?? 0) > Date.now()) throw new Error("this peer is banned");
    const connection = await this.connection([addresses].flat());
    return call(await connection.newStream(protocol, { signal: AbortSignal.timeout(CALL_MS) }), request, most);
  }

  // Connections

  /** The connection to a peer; if there is none, a new one, to the first of its addresses that the gate lets pass. */
  private async connection(addresses: string[]): Promise<Connection> {
    const peer = peerOf(addresses);
    const open = this.node.getConnections().find(({ remotePeer, status }) => status === "open" && remotePeer.toString() === peer);
    if (open) return open;
    const objections: string[] = [];
    for (const address of await this.lookedUp(addresses)) {
      const objection = this.gate.objection(address, now());
      if (objection === null) return this.dial(address);
      objections.push(objection);
    }
    throw new Held(objections[0] ?? "no address");
  }

  /** Dials one address that the gate let pass, and tells the gate how that went. */
  private async dial(address: string): Promise<Connection> {
    const [where, patience] = [multiaddr(address), this.gate.isGiven(address) ? CALL_MS : DIAL_MS];
    this.dialled.add(String(where));
    try {
      const connection = await this.node.dial(where, { signal: AbortSignal.timeout(patience) });
      this.gate.answered(address, String(connection.remoteAddr), now());
      return connection;
    } catch (error) {
      this.gate.failed(address, now());
      throw error;
    } finally {
      this.dialled.delete(String(where));
    }
  }

  /** The addresses, with host names of others looked up here: a second lookup by the library may lead elsewhere. */
  private async lookedUp(addresses: string[]): Promise<string[]> {
    const found: string[] = [];
    for (const address of addresses) {
      if (!isNamed(address) || this.gate.isGiven(address)) found.push(address);
      else if (this.gate.mayLookUp(now())) found.push(...(await ipsOf(address)));
    }
    return found;
  }
}

/** The peer that full multiaddrs of one peer lead to. */
const peerOf = (addresses: string | string[]): string => [addresses].flat()[0]!.split("/p2p/").at(-1)!;

/** Seconds of a clock that never goes back. */
const now = (): number => performance.now() / 1000;

function ownNetworks(): string[] {
  return Object.values(networkInterfaces()).flatMap((all) => (all ?? []).flatMap(({ cidr }) => cidr ?? []));
}

/** A multiaddr that begins with a host name, with the IP addresses of that name in its place, one of each family. */
async function ipsOf(address: string): Promise<string[]> {
  const [, kind, name] = address.split("/") as [string, string, string];
  const family = kind === "dns4" ? 4 : kind === "dns6" ? 6 : 0;
  const late = new Promise<[]>((done) => setTimeout(done, LOOKUP_MS, []).unref());
  const found = await Promise.race([lookup(name, { all: true, family }).catch(() => []), late]);
  const first = [4, 6].flatMap((version) => found.find((each) => each.family === version) ?? []);
  return first.map((each) => address.replace(`/${kind}/${name}`, `/ip${each.family}/${each.address}`));
}

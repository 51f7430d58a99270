/**
 * Which addresses to dial, by the section of that name in protocol/README.md. An announcement may name anybody's
 * address, so addresses of others are dialled rarely until a peer answered there, and never in networks that only this
 * machine sees. What the user gave is dialled wherever it is, less and less often while nobody answers.
 *
 * Pure: networks and listening addresses are arguments, and so is the time, in seconds of a clock that never goes back.
 */
import { BlockList, isIP } from "node:net";

export const MIN_PORT = 1_024;
export const CROWD_SECONDS = 300;
export const MAX_CROWD_SECONDS = 3_600;
export const LOCAL_SECONDS = 5;
export const MAX_LOCAL_SECONDS = 60;
export const PROVEN_SECONDS = 3_600;
export const WINDOW_SECONDS = 60;
export const WINDOW_DIALS = 20;
export const WINDOW_BYTES = 120_000;
export const TCP_BYTES = 300;
export const QUIC_BYTES = 12_800;
export const LOOKUPS = 4;
export const GIVEN_SECONDS = 1;
export const MAX_GIVEN_SECONDS = 300;
export const KNOWN_SECONDS = 15;
const REMEMBERED = 4_096; // crowds, proven addresses and given ones, of each

const PRIVATE = ["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "127.0.0.0/8", "fc00::/7", "::1/128"];
const LOOPBACK = listOf(["127.0.0.0/8", "::1/128"]);
const NEVER = listOf([
  ...["0.0.0.0/8", "169.254.0.0/16", "100.100.100.200/32", "168.63.129.16/32", "192.0.0.192/32", "224.0.0.0/4", "240.0.0.0/4"],
  ...["64:ff9b::/96", "64:ff9b:1::/48", "2001::/32", "2002::/16", "fd00:ec2::254/128", "fe80::/10", "ff00::/8"],
]);
const IPV4_WITHIN = listOf(["::/96"]); // another spelling of IPv4; ::1 is in it too
const NOT_PUBLIC = listOf([
  ...PRIVATE,
  ...["192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24"],
  ...["2001::/23", "2001:db8::/32", "3fff::/20"],
]);
const PUBLIC_6 = listOf(["2000::/3"]);

/** No address of a peer may be dialled now. */
export class Held extends Error {}

type Family = "ipv4" | "ipv6";
type Target = { ip: string; family: Family; port: number; udp: boolean; relayed: boolean };

/** Whether the address begins with a host name. */
export const isNamed = (address: string): boolean => /^\/dns[46]?\//.test(address);

function listOf(networks: readonly string[]): BlockList {
  const list = new BlockList();
  for (const network of networks) {
    const [ip, bits] = network.split("/") as [string, string];
    list.addSubnet(ip, Number(bits), ip.includes(":") ? "ipv6" : "ipv4");
  }
  return list;
}

/** The 16-bit groups of a valid IPv6 address. */
function groupsOf(ip: string): number[] {
  const [head, tail] = ip.replace(/(\d+)\.(\d+)\.(\d+)\.(\d+)$/, (_, a, b, c, d) => {
    return `${(Number(a) * 256 + Number(b)).toString(16)}:${(Number(c) * 256 + Number(d)).toString(16)}`;
  }).split("::") as [string, string | undefined];
  const numbers = (text: string): number[] => text.split(":").filter(Boolean).map((group) => parseInt(group, 16));
  const [left, right] = [numbers(head), numbers(tail ?? "")];
  return [...left, ...Array<number>(8 - left.length - right.length).fill(0), ...right];
}

/** Where a dial sends its first packet; null where the address has no IP address and port. */
export function targetOf(address: string): Target | null {
  const found = /^\/(ip4|ip6)\/([^/]+)\/(tcp|udp)\/(\d{1,5})(?=\/|$)/.exec(address);
  if (found === null) return null;
  const [, version, host, transport, port] = found as unknown as [string, string, string, string, string];
  if (host.includes("%") || isIP(host) !== (version === "ip4" ? 4 : 6)) return null;
  if (Number(port) > 65_535) return null;
  const rest = { port: Number(port), udp: transport === "udp", relayed: address.includes("/p2p-circuit") };
  if (version === "ip4") return { ...rest, ip: host, family: "ipv4" };
  const groups = groupsOf(host);
  if (groups.slice(0, 5).every((group) => group === 0) && groups[5] === 0xffff) {
    const [high, low] = [groups[6]!, groups[7]!];
    return { ...rest, ip: `${high >> 8}.${high & 255}.${low >> 8}.${low & 255}`, family: "ipv4" };
  }
  return { ...rest, ip: groups.map((group) => group.toString(16)).join(":"), family: "ipv6" };
}

/** What an address says up to its first peer id, with that. */
const firstHop = (address: string): string => /^.*?\/p2p\/[^/]+/.exec(address)?.[0] ?? address;

/** A map that forgets what was set longest ago. */
class Bounded<Value> extends Map<string, Value> {
  override set(key: string, value: Value): this {
    this.delete(key);
    super.set(key, value);
    if (this.size > REMEMBERED) this.delete(this.keys().next().value!);
    return this;
  }
}

export class Gate {
  private readonly given: ReadonlySet<string>;
  private readonly open = new Set<string>(); // private ranges
  private readonly crowds = new Bounded<{ until: number; failures: number }>();
  private readonly proven = new Bounded<number>(); // since when, by host and port
  private readonly rests = new Bounded<{ until: number; failures: number; answered: boolean }>(); // of given addresses
  private window: { when: number; bytes: number; target: string }[] = []; // unproven dials, under way or failed
  private lookups: number[] = [];

  /**
   * `given`: full multiaddrs of this peer's user. `listens`: the only IP address that the peer listens on, "" if there
   * are several or none. `networks`: of this machine's interfaces at this moment, as ADDRESS/BITS.
   */
  constructor(given: readonly string[], listens: string, private readonly networks: () => readonly string[]) {
    this.given = new Set(given.map(firstHop));
    for (const address of given) this.opens(address);
    const own = targetOf(`/ip${isIP(listens)}/${listens}/tcp/0`);
    if (own && LOOPBACK.check(own.ip, own.family)) this.openAround(own);
  }

  isGiven(address: string): boolean {
    return this.given.has(firstHop(address));
  }

  /** Why this address must not be dialled now; null where it may be. A dial that is let pass counts as begun. */
  objection(address: string, now: number): string | null {
    if (this.isGiven(address)) return (this.rests.get(address)?.until ?? now) > now ? "it did not answer just now" : null;
    const target = targetOf(address);
    if (target === null) return "not an address";
    const never = this.never(target);
    if (never !== null) return never;
    const since = this.proven.get(placeOf(target));
    if (since !== undefined && now - since < PROVEN_SECONDS) return null;
    if ((this.crowds.get(this.crowd(target))?.until ?? now) > now) return "its network was dialled just now";
    this.window = this.window.filter(({ when }) => now - when < WINDOW_SECONDS);
    const bytes = target.udp ? QUIC_BYTES : TCP_BYTES;
    const spent = this.window.reduce((sum, dial) => sum + dial.bytes, bytes);
    if (this.window.length >= WINDOW_DIALS || spent > WINDOW_BYTES) return "too many in vain";
    this.window.push({ when: now, bytes, target: placeOf(target) });
    this.hold(target, now, 0);
    return null;
  }

  /** The peer is connected. `where`: the address of the connection, which may be one that the peer made itself. */
  answered(address: string, where: string, now: number): void {
    if (this.isGiven(address)) {
      this.rests.set(address, { until: now, failures: 0, answered: true });
      this.opens(where);
      return;
    }
    const [target, end] = [targetOf(address), targetOf(where)];
    if (target === null) return;
    if (end !== null && placeOf(end) === placeOf(target)) {
      this.proven.set(placeOf(target), now);
      const crowd = this.crowd(target);
      const before = this.crowds.get(crowd);
      if (before) this.crowds.set(crowd, { ...before, failures: 0 });
    }
    this.leaves(target);
  }

  /** Nobody answered, or another peer. */
  failed(address: string, now: number): void {
    const target = targetOf(address);
    if (address.includes("/p2p-circuit")) return;
    if (this.isGiven(address)) {
      const { failures, answered } = this.rests.get(address) ?? { failures: 0, answered: false };
      const pause = Math.min(answered ? KNOWN_SECONDS : MAX_GIVEN_SECONDS, GIVEN_SECONDS * 2 ** failures);
      this.rests.set(address, { until: now + pause, failures: failures + 1, answered });
    } else if (target !== null) {
      this.proven.delete(placeOf(target));
      this.hold(target, now, 1);
    }
  }

  /** Whether a host name of others may be looked up now; that then counts. */
  mayLookUp(now: number): boolean {
    this.lookups = this.lookups.filter((when) => now - when < WINDOW_SECONDS);
    if (this.lookups.length >= LOOKUPS) return false;
    this.lookups.push(now);
    return true;
  }

  private never(target: Target): string | null {
    const { ip, family, port } = target;
    if (port < MIN_PORT) return `port below ${MIN_PORT}`;
    const loopback = LOOPBACK.check(ip, family);
    if (NEVER.check(ip, family) || (!loopback && family === "ipv6" && IPV4_WITHIN.check(ip, family))) return "never dialled";
    const isPublic = (family === "ipv4" || PUBLIC_6.check(ip, family)) && !NOT_PUBLIC.check(ip, family);
    return isPublic || this.isLocal(target) ? null : "not a public address";
  }

  private isLocal({ ip, family }: Target): boolean {
    if (listOf([...this.open]).check(ip, family)) return true;
    return !LOOPBACK.check(ip, family) && listOf(this.networks()).check(ip, family);
  }

  /** Opens the private range around what the user gave. */
  private opens(address: string): void {
    const target = targetOf(address);
    if (target !== null) this.openAround(target);
  }

  private openAround({ ip, family }: Target): void {
    for (const range of PRIVATE) if (listOf([range]).check(ip, family)) this.open.add(range);
  }

  /** What gets one dial in a while. */
  private crowd(target: Target): string {
    if (LOOPBACK.check(target.ip, target.family)) return placeOf(target);
    if (this.isLocal(target)) return target.ip;
    return target.family === "ipv4" ? target.ip.replace(/\d+$/, "") : target.ip.split(":", 3).join(":");
  }

  private hold(target: Target, now: number, failed: 0 | 1): void {
    const [first, most] = this.isLocal(target) ? [LOCAL_SECONDS, MAX_LOCAL_SECONDS] : [CROWD_SECONDS, MAX_CROWD_SECONDS];
    const crowd = this.crowd(target);
    const failures = (this.crowds.get(crowd)?.failures ?? 0) + failed;
    this.crowds.set(crowd, { until: now + Math.min(most, first * 2 ** Math.max(0, failures - 1)), failures });
  }

  private leaves(target: Target): void {
    const at = this.window.findLastIndex((dial) => dial.target === placeOf(target));
    if (at >= 0) this.window.splice(at, 1);
  }
}

const placeOf = ({ ip, port }: Target): string => `${ip} ${port}`;

/** The command beside announcements that name a victim: it hardly ever connects there, and a good peer is still read. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { createServer, type AddressInfo, type Server } from "node:net";
import { join } from "node:path";
import { test } from "node:test";
import { seal, type Sealed } from "../src/admission.js";
import { base64url } from "../src/bytes.js";
import { episodesOf } from "../src/cli.js";
import { Identity } from "../src/identity.js";
import type { Announcement } from "../src/messages.js";
import { Peer } from "../src/peer.js";

const SECONDS = 20;
const AUTHORS = 24; // as many as one reply names
const ASKED = { config_id: "easy", dataset: "gcd", digest: "AAAAAAAAAAA", environment: "reasoning_gym", version: "0.1.25" };
// Of a port: one dial at 0 s, and others 5, 10 and 20 s after the one before failed
const MOST = 3;

class Victim {
  connections = 0;
  private constructor(private readonly server: Server) {}

  static async start(): Promise<Victim> {
    const victim: Victim = new Victim(createServer((socket) => {
      victim.connections += 1;
      socket.destroy();
    }));
    victim.server.listen(0, "127.88.1.1");
    await once(victim.server, "listening");
    return victim;
  }

  get address(): string {
    return `/ip4/127.88.1.1/tcp/${(this.server.address() as AddressInfo).port}`;
  }

  stop(): void {
    this.server.close();
  }
}

function announced(by: Identity, addresses: string[], groups: string[]): Sealed<Announcement> {
  return seal<Announcement>("announcement", "tests", by, { addresses, author: by.peer, groups, held: [], round: 0, seq: 1 });
}

/** What the command prints while it reads at `entrance` for some seconds. */
async function read(entrance: string): Promise<string> {
  const cli = join(import.meta.dirname, "../src/cli.js");
  const words = [cli, entrance, "--swarm", "tests", "--seconds", String(SECONDS), "--json"];
  const child = spawn(process.execPath, words, { stdio: ["ignore", "pipe", "inherit"] });
  let said = "";
  child.stdout.on("data", (data) => (said += data));
  const [code] = await once(child, "close");
  assert.equal(code, 0, said);
  return said;
}

test("a victim that every announcement names gets a few connections, and who is really there is read", async () => {
  const [victim, other] = [await Victim.start(), await Victim.start()];
  const eve = await Peer.start(Identity.create(), "tests", ["/ip4/127.0.0.1/tcp/0"]);
  const ann = await Peer.start(Identity.create(), "tests", ["/ip4/127.0.0.1/tcp/0"]);
  const low = [25, 53, 80].map((port) => `/ip4/127.88.1.1/tcp/${port}`);
  for (let i = 0; i < AUTHORS - 2; i += 1) {
    const addresses = i % 2 ? [victim.address, other.address, ...low.slice(0, 2)] : [...low, victim.address];
    const told = announced(Identity.create(), addresses, [base64url(randomBytes(32))]);
    eve.heard.set(told.message.author, { ...told, made: Date.now() });
  }
  ann.publish([{ asked: ASKED, episodes: episodesOf(["4", "5"]) }]);
  await ann.exchange(eve.addresses[0]!);
  try {
    const said = await read(eve.addresses[0]!);
    assert.match(said, new RegExp(`"kind":"group","author":"${ann.identity.peer}"`));
    const counts = [victim.connections, other.connections];
    assert.ok(counts.every((count) => count >= 1 && count <= MOST), `${counts} connections`);
  } finally {
    await Promise.all([eve.stop(), ann.stop()]);
    victim.stop();
    other.stop();
  }
});

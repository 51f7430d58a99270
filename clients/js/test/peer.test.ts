/** Two peers on this machine: if one of them breaks a rule, the other counts that and is harmed in no other way. */
import assert from "node:assert/strict";
import { afterEach, beforeEach, test } from "node:test";
import { seal, type Sealed } from "../src/admission.js";
import { base64url, hex } from "../src/bytes.js";
import { episodesOf } from "../src/cli.js";
import { Identity } from "../src/identity.js";
import type { Announcement } from "../src/messages.js";
import { Peer } from "../src/peer.js";

const [ANN, EVE, BOB] = ["a", "e", "b"].map((letter) => Identity.fromSeed(Buffer.alloc(32, letter))) as [Identity, Identity, Identity];
const ASKED = { config_id: "easy", dataset: "gcd", digest: "AAAAAAAAAAA", environment: "reasoning_gym", version: "0.1.25" };
const EPISODES = episodesOf(["4", "5"]);

let ann: Peer;
let eve: Peer;
let address: string; // of ann

beforeEach(async () => {
  [ann, eve] = [await Peer.start(ANN, "tests", ["/ip4/127.0.0.1/tcp/0"]), await Peer.start(EVE, "tests", ["/ip4/127.0.0.1/tcp/0"])];
  address = ann.addresses[0]!;
});
afterEach(async () => {
  await Promise.all([ann.stop(), eve.stop()]);
});

function announced(seq: number, by: Identity = EVE): Sealed<Announcement> {
  return seal<Announcement>("announcement", "tests", by, { addresses: [], author: by.peer, groups: [], held: [], round: 0, seq });
}

/** Makes eve send this announcement to ann, as if it were eve's own. */
async function tell(said: Sealed<Announcement>): Promise<void> {
  Object.assign(eve, { latest: said });
  assert.ok(await eve.exchange(address));
}

const known = (): number | undefined => ann.heard.get(EVE.peer)?.message.seq;

test("what one publishes the other one finds, pulls once and admits", async () => {
  assert.equal(await eve.difference(address), null);
  ann.publish([{ asked: ASKED, episodes: EPISODES }]);
  await eve.exchange(address);
  const { groups } = eve.heard.get(ANN.peer)!.message;
  assert.deepEqual((await eve.pull(address, groups)).map(({ message }) => message.episodes), [EPISODES]);
  assert.deepEqual([await eve.pull(address, groups), ann.served], [[], 1]);
});

test("an announcement is taken if it is newer, of who tells it, and not far ahead", async () => {
  for (const [said, then] of [[7, 7], [6, 7], [7, 7], [7 + 4096, 4103], [4103 + 4097, 4103]] as const) {
    await tell(announced(said));
    assert.equal(known(), then);
  }
  await tell(announced(9, BOB));
  assert.equal(ann.heard.has(BOB.peer), false);
});

test("what is old, or of nobody, is not passed on", async () => {
  Object.assign(ann, { latest: announced(1, ANN), latestMade: Date.now() - 200_000 });
  await eve.exchange(address);
  assert.equal(eve.heard.size, 0);
  await tell({ ...announced(1), envelope: announced(1, BOB).envelope.map((byte, i) => (i === 5 ? byte ^ 1 : byte)) });
  assert.deepEqual([ann.heard.size, [...ann.refused]], [0, [["bad signature", 1]]]);
});

test("a peer of another swarm is told so, and gets nothing", async () => {
  const other = await Peer.start(BOB, "others", [], {}, [address]);
  assert.equal(await other.difference(address), "it is of the swarm tests, this peer of others");
  assert.equal(await other.exchange(address), false);
  await other.stop();
});

for (const [name, forged] of [["another group", false], ["a forged one", true]] as const) {
  test(`who serves ${name} is banned`, async () => {
    const [made] = ann.publish([{ asked: ASKED, episodes: EPISODES }]);
    const envelope = made!.envelope.map((byte, i) => (i === (forged ? 5 : 100) ? byte ^ 1 : byte));
    Object.assign(ann, { own: new Map([[hex(made!.hash), { envelope, round: 0, until: 0 }]]) });
    assert.deepEqual(await eve.pull(address, [base64url(made!.hash)]), []);
    await assert.rejects(eve.exchange(address), /banned/);
  });
}

test("a peer that asks too often gets empty replies", async () => {
  const answers = [];
  for (let i = 0; i < 13; i += 1) answers.push(await eve.exchange(address));
  assert.deepEqual([answers.slice(0, 10).every(Boolean), answers.at(-1)], [true, false]);
});

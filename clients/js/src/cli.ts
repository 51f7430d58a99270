#!/usr/bin/env node
/** swarm-reader: shows a swarm's peers, tasks and groups, or serves groups with answers from a given list. */
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { parseArgs } from "node:util";
import { follow, linesOf, networkOf, readCard } from "./card.js";
import { Held } from "./gate.js";
import { Identity } from "./identity.js";
import { isName, type Episode, type Group } from "./messages.js";
import { Peer, type Asked } from "./peer.js";

const USAGE = `usage: swarm-reader ADDRESS ... [--swarm NAME] [--seconds N] [--groups N] [--json]
       swarm-reader --manifest FILE [--network ID]
       swarm-reader ADDRESS ... --serve DATASET/CONFIG --answers TEXT,TEXT ... [--listen MULTIADDR] [--key FILE]

Shows the peers of a swarm, their tasks and their groups, with all text escaped.
With --manifest it shows the newest manifest of a file, if all of its manifests hold.
With --serve it takes part: each round it publishes groups of that task, whose
completions are the answers in turn. It learns how the task is addressed from a
group of a peer.

  --swarm NAME    the swarm's name (public)
  --seconds N     how long (60)
  --groups N      end after so many groups (no end); with --serve, of its own that others pulled
  --rounds N      seconds between two rounds of --serve (10)
  --listen ADDR   where others reach this peer (/ip4/0.0.0.0/tcp/0 with --serve)
  --key FILE      its identity, which is made if there is none; without this flag a new one each time
  --network ID    of the manifest, as people gave it to you; without it the first manifest is believed
  --json          a line of JSON for each thing that is shown`;

const EXCHANGE_MS = 1_500;
const COMPLETIONS = 8;
const QUESTIONS = 4; // of a round
const SHOWN = 70; // characters of a text

// Controls, formats and the like by category; and letters and marks that show nothing
const HIDDEN = /\p{C}|\p{Zl}|\p{Zp}|[\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0\u{e0100}-\u{e01ef}]/gu;

/** Text of strangers, safe on a terminal: one line, no controls, nothing that reorders its neighbours. */
export function escaped(text: string, most = SHOWN): string {
  const shown = JSON.stringify(text).replace(HIDDEN, (char) => `\\u{${char.codePointAt(0)!.toString(16)}}`);
  return shown.length > most ? `${shown.slice(0, most)}…` : shown;
}

function identityOf(file: string | undefined): Identity {
  if (file === undefined) return Identity.create();
  if (existsSync(file)) return Identity.fromFile(new Uint8Array(readFileSync(file)));
  const made = Identity.create();
  writeFileSync(file, made.toFile(), { mode: 0o600, flag: "wx" });
  return made;
}

/** The episodes of a group, of one turn each, with the answers in turn. */
export function episodesOf(answers: string[], count = COMPLETIONS): Episode[] {
  return Array.from({ length: count }, (_, i) => ({
    ended: true,
    trace: "",
    turns: [{ calls: [], text: answers[i % answers.length]! }],
  }));
}

/** Prints the newest card of a file, if all its cards are valid. */
function showCard(file: string, network?: string): void {
  const lines = linesOf(new Uint8Array(readFileSync(file))).filter((line) => line.length > 0);
  const id = network ?? (lines[0] ? networkOf(readCard(lines[0]).card) : "");
  const card = follow(lines, id, Math.floor(Date.now() / 1000));
  const rows = { ...card, network: id, tasks: card.tasks.map((task) => `${task.dataset}/${task.config_id}`) };
  for (const [name, value] of Object.entries(rows)) console.log(`${name.padEnd(10)} ${escaped(String(value), 2_000)}`);
}

function readArguments() {
  const text = { type: "string" as const };
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      swarm: { ...text, default: "public" },
      seconds: { ...text, default: "60" },
      groups: text,
      rounds: { ...text, default: "10" },
      serve: text,
      answers: text,
      listen: text,
      key: text,
      manifest: text,
      card: text, // the earlier name of --manifest
      network: text,
      json: { type: "boolean", default: false },
      help: { type: "boolean", default: false },
    },
  });
  if (values.help) {
    console.log(USAGE);
    process.exit(0);
  }
  const wrong =
    (positionals.length === 0 && (values.manifest ?? values.card) === undefined && "give the address of a peer: swarm-node status shows it") ||
    (!positionals.every((each) => each.includes("/p2p/")) && "an address ends in /p2p/ and the peer's id") ||
    (!isName(values.swarm) && "--swarm takes letters, digits, . _ + and -") ||
    (values.serve !== undefined && !values.answers && "--serve needs --answers") ||
    ([values.seconds, values.groups ?? "1", values.rounds].some((each) => !(Number(each) > 0)) && "a number must be above 0");
  if (wrong) throw new Error(`${wrong}; see swarm-reader --help`);
  return { ...values, card: values.manifest ?? values.card, addresses: positionals };
}

class Program {
  private shown = 0;
  private held = 0; // calls for which no address might be dialled yet
  private asked: Asked | null = null;
  private nextRound = 0;

  constructor(
    private readonly options: ReturnType<typeof readArguments>,
    private readonly peer: Peer,
  ) {}

  private say(kind: string, fields: Record<string, string | number | boolean>): void {
    const line = this.options.json
      ? JSON.stringify({ kind, ...fields })
      : `${kind.padEnd(9)} ${Object.entries(fields).map(([key, value]) => `${key} ${value}`).join("  ")}`;
    console.log(line);
  }

  async run(): Promise<void> {
    const ends = Date.now() + 1000 * Number(this.options.seconds);
    const least = Number(this.options.groups ?? Infinity);
    for (const address of this.peer.addresses) this.say("listening", { address });
    for (const address of this.options.addresses) {
      const difference = await this.peer.difference(address);
      if (difference !== null) throw new Error(`${escaped(address, 200)}: ${escaped(difference, 300)}`);
    }
    while (Date.now() < ends && (this.options.serve === undefined ? this.shown : this.peer.served) < least) {
      for (const address of this.options.addresses) await this.attempt(address, () => this.peer.exchange(address));
      await this.read();
      this.publish();
      await new Promise((done) => setTimeout(done, EXCHANGE_MS));
    }
    this.say("summary", { peers: this.peer.heard.size, groups: this.shown, served: this.peer.served, held: this.held });
    for (const [reason, count] of this.peer.refused) this.say("refused", { reason, count });
  }

  private async read(): Promise<void> {
    for (const [author, { message }] of this.peer.heard) {
      const given = this.options.addresses.find((each) => each.endsWith(`/p2p/${author}`));
      const told = message.addresses.filter((each) => /^\/(ip4|ip6|dns|dns4|dns6)\/[^/]+\/tcp\/\d+$/.test(each));
      const addresses = given ? [given] : told.map((each) => `${each}/p2p/${author}`);
      if (addresses.length === 0) continue;
      await this.attempt(addresses[0]!, async () => {
        for (const { message: group } of await this.peer.pull(addresses, message.groups)) this.show(group);
      });
    }
  }

  private show(group: Group): void {
    const { question, author, round, episodes } = group;
    const task = `${question.dataset}/${question.config_id}`;
    this.shown += 1;
    this.say("group", { author, round, task, completions: episodes.length, first: escaped(episodes[0]!.turns[0]!.text) });
    if (task === this.options.serve) {
      const { seed: _, index: __, ...asked } = question;
      this.asked = asked;
    }
  }

  private publish(): void {
    if (this.asked === null || Date.now() < this.nextRound) return;
    this.nextRound = Date.now() + 1000 * Number(this.options.rounds);
    const episodes = episodesOf(this.options.answers!.split(","));
    const made = this.peer.publish(Array.from({ length: QUESTIONS }, () => ({ asked: this.asked!, episodes })));
    this.say("published", { round: made[0]!.message.round, groups: made.length, served: this.peer.served });
  }

  /** Reports a peer that does not answer, and goes on: the loop asks it again, and the gate decides when to dial. */
  private async attempt(address: string, work: () => Promise<unknown>): Promise<void> {
    try {
      await work();
    } catch (error) {
      if (error instanceof Held) this.held += 1;
      else this.say("failed", { peer: address.split("/p2p/").at(-1)!, why: escaped(error instanceof Error ? error.message : String(error)) });
    }
  }
}

async function main(): Promise<void> {
  const options = readArguments();
  if (options.card !== undefined) return showCard(options.card, options.network);
  const listen = options.listen ?? (options.serve === undefined ? undefined : "/ip4/0.0.0.0/tcp/0");
  const peer = await Peer.start(identityOf(options.key), options.swarm, listen === undefined ? [] : [listen], {}, options.addresses);
  try {
    await new Program(options, peer).run();
  } finally {
    await peer.stop();
  }
}

if (process.argv[1] && import.meta.url.endsWith("/cli.js") && /(cli\.js|swarm-reader)$/.test(process.argv[1])) {
  main().catch((error: unknown) => {
    console.error(`swarm-reader: ${error instanceof Error ? error.message : String(error)}`);
    process.exit(2);
  });
}

// The page of a run: fetches its state, follows the stream of changes, and shows one section at a time.
import { make, replace, get, short, number, visible, keepTokenOut } from "./tools.js";
import { friendly } from "./names.js";
import { theme } from "./charts.js";
import { Learning } from "./learning.js";
import { Rollouts } from "./rollouts.js";
import { Swarm } from "./swarm.js";
import { Health } from "./health.js";

const SECTIONS = {
  node: { learning: ["Learning", Learning], rollouts: ["Rollouts", Rollouts], swarm: ["Swarm", Swarm], health: ["Health", Health] },
  bootstrap: { swarm: ["Swarm", Swarm], health: ["Health", Health] },
};
const RECENT = 512, MOST = 3000; // rounds of `recent`; points of `whole`, above which the page fetches all anew
const GONE = "the dashboard has stopped, trying again";
const run = { state: null, status: {}, samples: 0 };
let kind = null, name = null, section = null, source = null, late = null;

async function begin() {
  try {
    run.state = await get("api/state");
  } catch (error) {
    say(error.message === "401" ? "no token" : GONE, "bad");
    setTimeout(begin, 3000);
    return;
  }
  if (run.state.loading) {
    say("reading history", "warn");
    frame();
    setTimeout(begin, 300);
    return;
  }
  frame();
  listen();
}

function frame() {
  const wanted = run.status.role === "bootstrap" ? "bootstrap" : "node";
  if (wanted !== kind) {
    kind = wanted;
    const links = Object.entries(SECTIONS[kind]).map(([key, [title]]) => make("a", { href: `#${key}`, "data-key": key }, title));
    replace(document.getElementById("nav"), links);
    section = null;
  }
  open();
}

function open() {
  const keys = Object.keys(SECTIONS[kind]);
  const wanted = keys.includes(location.hash.slice(1)) ? location.hash.slice(1) : keys[0];
  if (section === null || wanted !== name) {
    section?.close?.();
    name = wanted;
    section = new SECTIONS[kind][name][1](run);
    replace(document.getElementById("main"), make("h2", { class: "sr" }, SECTIONS[kind][name][0]), section.element);
    for (const link of document.querySelectorAll("#nav a")) {
      if (link.dataset.key === name) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    }
  }
  section.show("state");
  headline();
}

function listen() {
  source?.close();
  source = new EventSource(`api/stream?serial=${run.state.serial}`);
  source.addEventListener("news", (event) => { take(JSON.parse(event.data)); later("news"); });
  source.addEventListener("status", (event) => {
    run.status = JSON.parse(event.data);
    headline();
    if ((run.status.role === "bootstrap") !== (kind === "bootstrap")) frame();
    else later("status");
  });
  source.addEventListener("samples", (event) => { run.samples = JSON.parse(event.data).number; later("samples"); });
  source.addEventListener("anew", () => { source.close(); begin(); });
  source.onerror = () => { say(GONE, "bad"); source.close(); setTimeout(begin, 3000); };
  source.onopen = () => headline();
}

// Many changes may come at once: the page shows them together, at most four times a second.
function later(what) {
  late ??= new Set();
  late.add(what);
  if (late.size > 1 || late.timer) return;
  late.timer = setTimeout(() => { const what = late; late = null; for (const each of what) section?.show(each); headline(); }, 250);
}

function take(piece) {
  const state = run.state;
  if (piece.round) {
    push(state.whole, ...piece.round);
    push(state.recent, ...piece.round, RECENT);
    if (state.whole.rounds.length > MOST) { source.close(); begin(); return; }
    Object.assign(state, { last: piece.last, tasks: piece.tasks });
    Object.assign(state.authors, piece.authors);
  }
  if (piece.machine) push(state.machine, ...piece.machine);
  if (piece.validated) push(state.validations, piece.validated[0], { reward: piece.validated[1] });
  if (piece.learned) state.learned = piece.learned;
  if (piece.chosen) state.chosen = piece.chosen;
  if (piece.facts) state.facts = piece.facts;
  if (piece.line) state.lines = [...state.lines.slice(-199), piece.line];
}

function push(columns, round, figures, most = Infinity) {
  const { rounds, series } = columns;
  while (rounds.length && rounds.at(-1) >= round) { rounds.pop(); for (const values of Object.values(series)) values.pop(); }
  for (const key of Object.keys(figures)) series[key] ??= rounds.map(() => null);
  rounds.push(round);
  for (const [key, values] of Object.entries(series)) values.push(figures[key] ?? null);
  if (rounds.length > most) { rounds.shift(); for (const values of Object.values(series)) values.shift(); }
}

function headline() {
  const peer = run.status.peer_id ?? run.state?.last?.peer_id ?? "";
  const who = peer && friendly(peer);
  subtitle([`${run.status.role ?? "node"} ${who} ${short(peer)}`, run.state?.facts?.model].filter(Boolean).join(", "));
  if (!("healthy" in run.status)) say(run.state.loading ? "reading history" : "waiting for the node", "");
  else if (["starting", "resting"].includes(run.status.state)) say(run.status.state, "");
  else if (run.status.healthy) say("healthy", "good");
  else if (!run.status.role) say("not running", "warn");
  else say(`${number(run.status.problems.length)} problem${run.status.problems.length === 1 ? "" : "s"}`, "bad");
  document.title = `${document.getElementById("pill").textContent}: ${who || "swarm-node"}`; // tells tabs apart
}

function subtitle(text) { replace(document.getElementById("subtitle"), document.createTextNode(visible(text))); }

function say(text, level) {
  const pill = document.getElementById("pill");
  if (pill.textContent !== text) pill.textContent = text;
  pill.className = `pill ${level}`;
}

keepTokenOut();
theme(document.getElementById("theme"));
addEventListener("hashchange", () => { if (run.state && kind) { open(); document.getElementById("main").focus({ preventScroll: true }); scrollTo(0, 0); } });
begin();

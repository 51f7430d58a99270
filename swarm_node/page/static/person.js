// A person answers: first what a group has to be, then one question at a time, drafts with their scores, and what became of them.
import { make, replace, get, number, short, table, keepTokenOut } from "./tools.js";
import { theme } from "./charts.js";

const EVERY = 2000; // milliseconds between two looks while nothing is pressed
const text = (words) => document.createTextNode(words);
const signed = (value) => `${value > 0 ? "+" : value < 0 ? "−" : ""}${Math.abs(value).toFixed(2)}`;

// What a person learns first
const start = make("button", { type: "button", class: "main", onclick: () => begin() }, "Start answering");
const lesson = make("section", { class: "card part lesson", "aria-labelledby": "lesson" },
  make("h2", { id: "lesson" }, "Two different answers, at least"),
  make("p", {}, "You answer the questions of a swarm, and other nodes train their models on what you publish."),
  make("p", {}, "A node never learns from one answer by itself. It takes all answers to a question as a group, scores each, and compares each score with the mean of the group: answers above the mean become more likely, answers below it less likely. So a group needs at least two different answers with different scores. Two right ones teach nothing, and neither do two wrong ones."),
  make("p", {}, "Therefore write a right answer and a wrong one that somebody might really give. You see the score of each at once."),
  make("div", { class: "bar" }, start));

// The question and the answers to it
const task = make("span", { class: "tag" }), prompt = make("pre", { dir: "auto", id: "prompt", tabindex: "0", role: "region", "aria-label": "What is asked" });
const scoring = make("p", { class: "quiet" });
const box = make("textarea", { id: "draft", rows: 4, "aria-describedby": "hint", spellcheck: "false", onkeydown: (event) => { if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); draft(); } } });
const score = make("button", { type: "button", class: "main", onclick: () => draft() }, "Score this answer");
const publish = make("button", { type: "button", "aria-describedby": "verdict", onclick: () => press("publish") }, "Publish");
const skip = make("button", { type: "button", onclick: () => press("skip") }, "Another question");
const leave = make("button", { type: "button", onclick: () => press("leave") }, "Leave");
const note = make("p", { role: "status", id: "note" }), verdict = make("p", { id: "verdict", class: "note" }), drafts = make("div", {});
const desk = make("section", { class: "card part desk", "aria-labelledby": "question" },
  make("div", { class: "bar" }, make("h2", { id: "question" }, "Question"), task), prompt,
  make("h3", {}, "How it is scored"), scoring,
  make("label", { for: "draft" }, "Your answer"), box, make("p", { id: "hint", class: "quiet" }, "You can also press Ctrl and Enter to score it."),
  make("div", { class: "bar" }, score, publish, skip, make("span", { class: "spacer" }), leave), note,
  make("h3", {}, "Your answers to this question"), drafts, verdict);

// What became of them
const became = make("div", {}), lines = make("ul", { class: "lines" });
const after = make("section", { class: "card part", "aria-labelledby": "became" }, make("h2", { id: "became" }, "What became of your answers"), became,
  make("p", { class: "quiet" }, "Your node knows which nodes downloaded a group here, and which announce that they have it. A node that has it has checked it and scores it by itself. Whether it then trains on it, no node tells another."));
const said = make("section", { class: "card part", tabindex: "0", role: "region", "aria-label": "What this node said" }, make("h2", {}, "What this node said"), lines);

let seen = null, busy = false, presses = 0, started = false;

function begin() {
  started = true;
  if (seen) show(seen);
  if (!desk.hidden) box.focus();
}

function show(view) {
  pill(view);
  started = started || view.published > 0 || view.drafts.length > 0; // not after the page was loaded again
  lesson.hidden = started || view.left;
  desk.hidden = !started || view.prompt === null;
  after.hidden = !started;
  if (view.prompt !== null && seen?.shown !== view.number) {
    replace(prompt, make("span", {}, view.prompt));
    replace(task, text(view.task));
    replace(scoring, text(view.scoring));
    box.value = "";
    if (seen && started && !lesson.contains(document.activeElement)) box.focus();
  }
  view.shown = view.prompt === null ? seen?.shown : view.number;
  for (const [element, words] of [[note, view.note], [verdict, view.verdict]]) if (element.textContent !== words) replace(element, text(words));
  verdict.className = `note ${view.teaches ? "good" : view.drafts.length ? "" : "plain"}`;
  publish.setAttribute("aria-disabled", view.teaches ? "false" : "true");
  publish.className = view.teaches ? "main" : "";
  if (changed(view, "drafts")) replace(drafts, view.drafts.length ? answers(view.drafts) : make("p", { class: "quiet" }, "None yet."));
  if (changed(view, "sent") || changed(view, "reach")) replace(became, view.sent.length ? sent(view) : make("p", { class: "quiet" }, "You have published nothing yet."));
  if (changed(view, "lines")) replace(lines, [...view.lines].reverse().map((each) => make("li", {}, each)));
  said.hidden = !view.lines.length;
  seen = view;
}

const changed = (view, name) => JSON.stringify(seen?.[name]) !== JSON.stringify(view[name]);

function answers(rows) {
  const head = [["answer", ""], ["score", "number"], ["from the mean", "number"], ["a node makes it", "effect"]];
  const lone = rows.length < 2;
  return table("Your answers with their scores", head, rows.map(([words, reward, distance]) => [
    make("pre", { dir: "auto" }, words), number(reward, 2), lone ? "–" : signed(distance),
    lone || Math.abs(distance) < 1e-6 ? "neither more nor less likely" : distance > 0 ? "more likely" : "less likely"]));
}

// The newest first
function sent(view) {
  const known = view.reach.downloads;
  return make("ul", { class: "lines" }, view.sent.map(([name, of, count]) => make("li", {},
    make("span", { class: "tag" }, of), ` ${number(count)} answers, group `, make("code", {}, short(name)), ": ",
    make("strong", {}, fate(known[name] ?? 0, view.reach.enabled)))));
}

function fate(count, enabled) {
  if (count) return `${count} ${count === 1 ? "node has" : "nodes have"} downloaded it`;
  return enabled ? "no node has downloaded it yet" : "the network is off: it stays on this computer";
}

function pill(view) {
  const found = document.getElementById("pill"), { enabled, connected } = view.reach;
  const near = !enabled ? "network off" : connected === null ? "waiting for the node" : `${connected} ${connected === 1 ? "node" : "nodes"} connected`;
  const words = view.left ? "ended" : view.prompt === null ? "preparing a question" : `${view.published} published, ${near}`;
  if (found.textContent !== words) found.textContent = words;
  found.className = `pill ${view.left || (enabled && connected === 0) ? "warn" : view.published ? "good" : ""}`;
}

async function draft() {
  if (await press("draft", box.value)) { box.select(); box.focus(); }
}

async function press(kind, words = "") {
  if (busy || !seen) return false;
  if (kind === "publish" && !seen.teaches) { replace(note, text("Not published: see below why.")); return false; }
  busy = true;
  presses++;
  let done = true;
  try {
    const reply = await fetch("api/press", { method: "POST", credentials: "same-origin", headers: { "content-type": "application/json" }, body: JSON.stringify({ kind, number: seen.number, text: words }) });
    if (!reply.ok) throw new Error(`${reply.status}`);
    show(await reply.json());
  } catch (error) { replace(note, text(`That did not work: ${error.message}.`)); done = false; }
  busy = false;
  return done;
}

async function look() {
  if (seen?.left) return;
  if (!busy) {
    const before = presses; // what was asked before a press may come after its reply, and would bring the old question back
    try { const view = await get("api/desk"); if (presses === before) show(view); } catch (error) {
      const found = document.getElementById("pill");
      found.textContent = error.message === "401" ? "no token" : "the page has stopped"; found.className = "pill bad";
    }
  }
  if (!seen?.left) setTimeout(look, EVERY);
}

replace(document.getElementById("main"), lesson, desk, after, said);
for (const part of [lesson, desk, after, said]) part.hidden = true;
keepTokenOut();
theme(document.getElementById("theme"));
look().then(() => { if (!lesson.hidden) start.focus(); });

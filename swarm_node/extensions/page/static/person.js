// A person answers: one question, drafts with their rewards, and on to the next. Drafts that differ in reward are published.
import { make, replace, get, number, keepTokenOut } from "./tools.js";
import { theme } from "./charts.js";

const EVERY = 2000; // milliseconds between two looks while nothing is pressed
const task = make("h2", {}), prompt = make("pre", { dir: "auto", id: "prompt" });
const note = make("p", { role: "status", class: "quiet" });
const box = make("textarea", { id: "draft", rows: 4, "aria-describedby": "hint", onkeydown: (event) => { if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) draft(); } });
const score = make("button", { type: "button", class: "main", onclick: () => draft() }, "Score this draft");
const on = make("button", { type: "button", onclick: () => press("go on") }, "Next question");
const leave = make("button", { type: "button", class: "quiet", onclick: () => press("leave") }, "Leave");
const hint = make("p", { id: "hint", class: "quiet" });
const drafts = make("div", {}), lines = make("ul", { class: "lines" });
const desk = make("div", {}, task,
  make("section", { class: "card desk" }, make("h3", {}, "Question"), prompt, make("label", { for: "draft" }, "Your answer"), box,
    make("div", { class: "bar" }, score, on, make("span", { class: "spacer" }), leave), note, hint),
  drafts);
let seen = null, busy = false, presses = 0;

function show(view) {
  pill(view);
  desk.hidden = view.prompt === null;
  if (view.prompt !== null) {
    if (seen?.number !== view.number) { replace(prompt, make("span", {}, view.prompt)); replace(task, make("span", {}, view.task)); box.value = ""; if (seen) box.focus(); }
    const rewards = new Set(view.drafts.map((each) => each[1]));
    const shared = rewards.size > 1;
    replace(on, document.createTextNode(shared ? "Publish, next question" : "Next question"));
    on.className = shared ? "main" : "";
    replace(hint, document.createTextNode(shared ? "These drafts differ in reward: others can learn from them." : view.drafts.length ? "Take another draft: only drafts with different rewards teach, one right and one wrong." : "Ctrl and Enter score it, too."));
    if (note.textContent !== view.note) replace(note, document.createTextNode(view.note));
    const rows = view.drafts.map(([text, reward], i) => make("tr", {}, make("td", { class: "number" }, number(i + 1)), make("td", { class: "number" }, number(reward, 2)), make("td", { class: "text" }, make("pre", { dir: "auto" }, text))));
    replace(drafts, rows.length ? make("section", { class: "card" }, make("h3", {}, "Your drafts"), make("table", { class: "completions" }, make("caption", { class: "sr" }, "Your drafts with their rewards"),
      make("thead", {}, make("tr", {}, ["draft", "reward", "answer"].map((each, i) => make("th", { scope: "col", class: i < 2 ? "number" : "" }, each)))), make("tbody", {}, rows))) : null);
  }
  if (JSON.stringify(seen?.lines) !== JSON.stringify(view.lines)) replace(lines, [...view.lines].reverse().map((each) => make("li", {}, each)));
  seen = view;
}

function pill(view) {
  const found = document.getElementById("pill");
  const text = view.left ? "ended" : view.prompt === null ? "preparing a question" : `${view.published} published`;
  if (found.textContent !== text) found.textContent = text;
  found.className = `pill ${view.left ? "warn" : view.published ? "good" : ""}`;
}

async function draft() {
  if (await press("draft", box.value)) { box.select(); box.focus(); }
}

async function press(kind, text = "") {
  if (busy || !seen) return false;
  busy = true;
  presses++;
  for (const each of [score, on, leave]) each.disabled = true;
  let done = true;
  try {
    const reply = await fetch("api/press", { method: "POST", credentials: "same-origin", headers: { "content-type": "application/json" }, body: JSON.stringify({ kind, number: seen.number, text }) });
    if (!reply.ok) throw new Error(`${reply.status}`);
    show(await reply.json());
  } catch (error) { replace(note, document.createTextNode(`not taken: ${error.message}`)); done = false; }
  for (const each of [score, on, leave]) each.disabled = false;
  busy = false;
  return done;
}

async function look() {
  if (!busy) {
    const before = presses; // what was asked before a press may come after its reply, and would bring the old question back
    try { const view = await get("api/desk"); if (presses === before) show(view); } catch (error) {
      const found = document.getElementById("pill");
      found.textContent = error.message === "401" ? "no token" : "page is gone"; found.className = "pill bad";
    }
  }
  if (!seen?.left) setTimeout(look, EVERY);
}

replace(document.getElementById("main"), desk, make("h2", {}, "What it said"), make("section", { class: "card", tabindex: "0", role: "region", "aria-label": "What the contributor said" }, lines));
desk.hidden = true;
keepTokenOut();
theme(document.getElementById("theme"));
look();

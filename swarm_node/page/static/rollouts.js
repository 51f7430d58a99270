// The last groups: each prompt with its completions. They are text of strangers, so they go in as text, not HTML.
import { make, replace, get, number, short, clock, visible } from "./tools.js";
import { friendly } from "./names.js";

export class Rollouts {
  constructor(run) {
    this.run = run;
    this.samples = [];
    this.seen = -1;
    this.held = false;
    this.find = make("input", { type: "search", size: "14", oninput: () => this.list() });
    this.task = make("select", { onchange: () => this.list() });
    this.peer = make("select", { onchange: () => this.list() });
    const choice = (names) => make("select", { onchange: () => this.list() }, names.map((each) => make("option", {}, each)));
    this.fate = choice(["all", "local", "external", "trained on", "not trained on"]);
    this.reward = choice(["all", "right and wrong", "all right", "none right"]);
    this.order = choice(["newest", "highest reward", "lowest reward"]);
    this.hold = make("button", { type: "button", "aria-pressed": "false", onclick: () => this.pause() }, "Hold still");
    this.count = make("span", { class: "quiet", role: "status" });
    this.groups = make("div", {});
    this.element = make("div", {},
      make("div", { class: "bar" }, make("label", {}, "Task", this.task), make("label", {}, "Author", this.peer), make("label", {}, "Kind", this.fate), make("label", {}, "Reward", this.reward), make("label", {}, "First", this.order), make("label", {}, "Find", this.find),
        make("span", { class: "spacer" }), this.count, this.hold),
      this.groups);
  }

  async show(what) {
    if (what === "news" || what === "status" || this.held || (what === "samples" && this.run.samples === this.seen)) return;
    if (this.groups.contains(document.activeElement) && this.samples.length) return; // somebody reads here: keep it
    this.seen = this.run.samples;
    try {
      this.samples = (await get("api/samples")).samples;
    } catch { return; }
    options(this.task, ["all", ...new Set(this.samples.map((each) => String(each.task)))], (task) => short(task));
    options(this.peer, ["all", ...new Set(this.samples.map((each) => String(each.author)))], (peer) => `${friendly(peer)} ${short(peer)}`);
    this.list();
  }

  pause() {
    this.held = !this.held;
    this.hold.setAttribute("aria-pressed", String(this.held));
    replace(this.hold, document.createTextNode(this.held ? "Continue" : "Hold still"));
    if (!this.held) this.show("state");
  }

  list() {
    const shown = this.samples.filter((each) => this.matches(each));
    const sign = { newest: 0, "highest reward": -1, "lowest reward": 1 }[this.order.value];
    if (sign) shown.sort((a, b) => sign * (mean(a) - mean(b)));
    replace(this.count, document.createTextNode(`${shown.length} of the last ${this.samples.length} groups`));
    const opened = new Set([...this.groups.querySelectorAll("details:not([open])")].map((each) => each.dataset.key));
    const cards = shown.map((sample, i) => group(sample, i < 2 && !opened.has(key(sample))));
    const why = this.samples.length ? "No group matches." : "There are no groups yet. A node keeps at most one a second for this page, and none if it was started with --observers that do not name samples.";
    replace(this.groups, cards.length ? cards : [make("p", { class: "card empty" }, why)]);
  }

  matches(sample) {
    const fate = { all: true, local: sample.local, external: !sample.local, "trained on": sample.trained, "not trained on": !sample.trained }[this.fate.value];
    const rewards = rewardsOf(sample), full = rewards.map((reward) => reward >= 1);
    const reward = { all: true, "right and wrong": full.includes(true) && full.includes(false), "all right": full.length && !full.includes(false), "none right": !full.includes(true) }[this.reward.value];
    const sought = this.find.value.trim().toLowerCase();
    return (!sought || written(sample).toLowerCase().includes(sought)) && fate && reward && ["all", String(sample.task)].includes(this.task.value) && ["all", String(sample.author)].includes(this.peer.value);
  }
}

const rewardsOf = (sample) => (Array.isArray(sample.completions) ? sample.completions : []).map((each) => Number(each.reward));
const written = (sample) => [sample.prompt, ...(sample.completions ?? []).flatMap((each) => [each.text, ...(each.turns ?? []).map((one) => one.text)])].join("\n");
const mean = (sample) => { const all = rewardsOf(sample); return all.length ? all.reduce((sum, each) => sum + each, 0) / all.length : 0; };
const key = (sample) => `${sample.time} ${sample.author} ${sample.task}`;

function options(select, values, show) {
  if ([...select.options].map((each) => each.value).join("\n") === values.join("\n")) return;
  const before = select.value;
  replace(select, values.map((value) => make("option", { value, selected: value === before }, value === "all" ? value : show(value))));
  if (!values.includes(before)) select.value = "all";
}

function group(sample, open) {
  const completions = Array.isArray(sample.completions) ? sample.completions : [];
  const copy = make("button", { type: "button", onclick: (event) => copied(event, sample) }, "Copy as JSON");
  return make("details", { class: "card rollout", open, "data-key": key(sample) },
    make("summary", {},
      make("strong", {}, String(sample.task)),
      make("span", { class: `tag ${sample.local ? "local" : ""}` }, sample.local ? "local" : `from ${friendly(sample.author)} ${short(String(sample.author))}`),
      make("span", { class: `tag ${sample.trained ? "good" : "warn"}` }, sample.trained ? "trained on" : String(sample.why)),
      make("span", { class: "grow" }), make("span", { class: "quiet" }, `mean ${number(completions.length ? mean(sample) : null)}, round ${sample.round}, ${clock(sample.time)}`)),
    make("h3", {}, "Prompt"), text(sample.prompt, "Prompt"),
    make("h3", {}, `Completions${sample.left_out ? `, ${sample.left_out} more are not shown` : ""}`),
    make("div", { class: "scroll" }, make("table", { class: "completions" },
      make("caption", { class: "sr" }, "Completions with reward and advantage"),
      make("thead", {}, make("tr", {}, ["reward", "advantage", "completion"].map((each, i) => make("th", { scope: "col", class: i < 2 ? "number" : "" }, each)))),
      make("tbody", {}, completions.map(row)))),
    make("p", {}, copy));
}

function row(each) {
  const reward = Number(each.reward);
  const bar = make("i", { style: { width: `${Math.round(100 * Math.max(0, Math.min(1, reward)))}%` } });
  return make("tr", {},
    make("td", { class: "number" }, make("span", { class: "reward", "aria-hidden": "true" }, bar), ` ${number(reward, 2)}`),
    make("td", { class: "number" }, `${each.advantage > 0 ? "+" : ""}${number(each.advantage, 2)}`),
    make("td", { class: "text" }, said(each), each.ended ? null : make("span", { class: "quiet" }, "cut off: it reached the largest number of tokens")));
}

function said(each) {
  if (!Array.isArray(each.turns) || !each.turns.length) return [text(each.text, "Completion")];
  return each.turns.flatMap((one) => [make("span", { class: "quiet" }, one.own ? "model" : "environment"), text(one.text, one.own ? "Model" : "Environment")]);
}

function text(value, label) {
  const shown = String(value);
  return make("pre", { dir: "auto", tabindex: shown.length > 400 ? "0" : null, role: shown.length > 400 ? "region" : null, "aria-label": shown.length > 400 ? label : null },
    shown === "" ? "(nothing)" : shown);
}

async function copied(event, sample) {
  const said = JSON.stringify(sample, null, 2);
  const button = event.currentTarget;
  try {
    await navigator.clipboard.writeText(said);
    replace(button, document.createTextNode("Copied"));
  } catch { // over plain HTTP on another machine there is no clipboard: show the text, to be copied by hand
    button.after(make("pre", { tabindex: "0", role: "region", "aria-label": "JSON" }, visible(said)));
  }
}

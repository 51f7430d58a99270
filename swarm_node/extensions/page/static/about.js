// What this run is: options with their origins, versions, checkpoints and how to use each.
import { make, facts, table, number, bytes, replace, get } from "./tools.js";

export class About {
  constructor(run) {
    this.run = run;
    this.body = make("div", {}, make("p", { class: "quiet" }, "reading …"));
    this.element = this.body;
    this.all = false;
  }

  async show(what) {
    if (what !== "state") return;
    try {
      this.content = await get("api/about");
      this.fill();
    } catch { replace(this.body, make("p", { class: "note" }, "cannot be read")); }
  }

  fill() {
    const { content } = this, started = this.run.state.started ?? {};
    const parts = [
      make("h2", {}, "Run"),
      make("section", { class: "card" }, facts([
        ["what", content.kind ?? "nothing was run here yet"], ["folder", make("code", {}, content.folder)], ["started", content.started ?? "–"],
        ["command", make("code", {}, (content.command ?? []).join(" ") || "–")], ["commit", content.commit ?? "not from a checkout"],
        ...Object.entries(started.facts ?? {}),
        ...Object.entries(content.hardware ?? {}).map(([name, value]) => [name.replace("_gib", " (GiB)"), Array.isArray(value) ? value.join(", ") || "none" : String(value)]),
      ])),
      make("h2", {}, "Versions"),
      make("section", { class: "card" }, facts(Object.entries(content.versions ?? {}))),
    ];
    if (content.kind !== "simulation") parts.push(make("h2", {}, "Checkpoints"), make("section", { class: "card" }, content.checkpoints.length ? content.checkpoints.map(checkpoint) : make("p", { class: "empty" }, "none yet")));
    const options = content.options.filter((each) => this.all || each.differs);
    const rows = options.map((each) => [make("code", {}, each.name), make("code", { class: "long" }, shown(each.value)), each.origin, each.differs ? make("code", { class: "long" }, shown(each.default)) : "", make("span", { class: "quiet" }, each.text)]);
    parts.push(make("h2", {}, "Configuration"),
      make("div", { class: "bar" }, make("label", {}, make("input", { type: "checkbox", checked: this.all, onchange: (event) => { this.all = event.target.checked; this.fill(); this.body.querySelector("input").focus(); } }), "all options, not only those that differ from their defaults")),
      make("section", { class: "card" }, rows.length ? table("Configuration", [["option", ""], ["value", ""], ["from", ""], ["default", ""], ["meaning", "text"]], rows) : make("p", { class: "empty" }, "all defaults")));
    replace(this.body, parts);
  }
}

const shown = (value) => (Array.isArray(value) ? value.join(" ") : String(value ?? "–")) || '""';

function checkpoint(each) {
  const uses = Object.entries(each.uses).map(([what, how]) => [what, make("code", {}, how)]);
  return make("div", {}, make("h3", {}, each.name, " ", make("span", { class: "quiet" }, `${each.rounds === null ? "" : `${number(each.rounds)} rounds, `}${bytes(each.bytes)}, ${new Date(1000 * each.time).toLocaleString()}`)), facts(uses));
}

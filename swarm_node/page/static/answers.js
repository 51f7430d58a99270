// The first three questions: does the node learn, from whom, and what does its owner do now? And the buttons for that.
import { make, replace, number, percent, seconds, short } from "./tools.js";
import { friendly } from "./names.js";

const FEW = 20; // rounds averaged for the beginning and for now; fewer than twice as many are too few to answer
const GAIN = 0.05; // a change of the mean reward that counts as learning, or as getting worse

export class Answers {
  constructor(run) {
    this.run = run;
    this.said = "";
    this.cards = ["Does it learn?", "From whom?", "What do I do now?"].map((question) => {
      const [word, why] = [make("p", { class: "answer" }), make("p", { class: "quiet" })];
      return { word, why, element: make("section", { class: "card" }, make("h3", {}, question), word, why) };
    });
    this.rest = make("button", { type: "button", onclick: () => this.act(this.run.status.paused ? "resume" : "pause") });
    this.ask = make("button", { type: "button", onclick: () => this.act("validate") }, "Ask held-out questions now");
    this.note = make("span", { class: "quiet", role: "status" });
    this.buttons = make("div", { class: "bar" }, this.rest, this.ask, this.note);
    this.cards[2].element.append(this.buttons);
    this.element = make("div", { class: "answers" }, this.cards.map((each) => each.element));
  }

  show() {
    const { state, status } = this.run;
    const answers = [learns(state), teachers(state, status), next(state, status)];
    const said = JSON.stringify(answers);
    if (said !== this.said) answers.forEach(([word, level, why], i) => {
      const card = this.cards[i];
      replace(card.word, make("span", { class: level }, word));
      replace(card.why, [why].flat().map((part) => (typeof part === "object" ? make(part.tag, { class: part.class }, part.text) : document.createTextNode(part))));
    });
    this.said = said;
    const trains = status.role === "node";
    this.buttons.hidden = !state.acts || !(trains || status.paused);
    const label = status.paused ? "Resume" : "Pause";
    if (this.rest.textContent !== label) replace(this.rest, document.createTextNode(label));
    this.ask.hidden = !trains || Boolean(status.paused) || !state.validations.rounds.length;
    if (this.waiting && this.waiting(status, state)) this.say("", null);
  }

  say(text, waiting) {
    this.waiting = waiting;
    replace(this.note, document.createTextNode(text));
  }

  async act(what) {
    const before = this.run.state.validations.rounds.at(-1);
    const done = {
      pause: ["The node will pause after this round.", (status) => status.training?.resting],
      resume: ["The node continues.", (status) => status.role && !status.training?.resting],
      validate: ["The node will ask them after this round.", (status, state) => state.validations.rounds.at(-1) !== before],
    }[what];
    try {
      const reply = await fetch("api/act", { method: "POST", credentials: "same-origin", headers: { "content-type": "application/json" }, body: JSON.stringify({ do: what }) });
      if (!reply.ok) throw new Error((await reply.text()).slice(0, 200));
      if (what !== "validate") this.run.status = { ...this.run.status, paused: what === "pause" };
      this.say(...done);
      this.show();
    } catch (error) { this.say(`That did not work: ${error.message}`, null); }
  }
}

const mean = (values) => { const there = values.filter((each) => each !== null && each !== undefined); return there.length ? there.reduce((sum, each) => sum + each, 0) / there.length : null; };
const code = (text) => ({ tag: "code", text });

function learns(state) {
  const { rounds, series } = state.whole;
  if (!rounds.length) return ["Not yet", "", "No round is finished."];
  const checks = (state.validations.series.reward ?? []).filter((each) => each !== null);
  const held = Object.keys(state.learned?.now ?? {}).length > 0 && checks.length > 1;
  const [first, now] = held
    ? [mean(Object.keys(state.learned.now).map((task) => state.learned.before[task] ?? state.learned.now[task])), mean(Object.values(state.learned.now))]
    : [mean((series.reward ?? []).slice(0, FEW)), mean((state.recent.series.reward ?? []).slice(-FEW))];
  const time = (series.hours ?? []).at(-1);
  const span = `after ${(state.last.round + 1).toLocaleString()} rounds${time ? ` in ${seconds(3600 * time)}` : ""}`;
  const what = held ? "Held-out questions, mean over tasks" : `Reward in training, over ${FEW} rounds`;
  const why = `${what}: ${percent(first)} at first, ${percent(now)} now, ${span}.`;
  if (first === null || now === null || (!held && rounds.length < 2 * FEW)) return ["Too early to say", "", `${rounds.length} rounds are finished; after ${2 * FEW} this can be answered.`];
  if (now - first >= GAIN) return ["Yes", "good", why];
  if (now - first <= -GAIN) return ["It got worse", "bad", why];
  if (now >= 0.9) return ["It knows this already", "good", why];
  return ["Not noticeably", "warn", why];
}

function teachers(state, status) {
  const came = Object.entries(state.authors).filter(([, each]) => each.trained).sort(([, a], [, b]) => b.trained - a.trained);
  const given = status.network?.counters?.["groups served"];
  const gave = given ? ` It gave others ${number(given)} groups.` : "";
  if (!came.length) return ["From nobody else yet", "", `${status.training?.alone ? `Alone because ${status.training.alone}.` : "This node has not trained on groups of other nodes yet."}${gave}`];
  const width = state.whole.width;
  const sum = (key) => (state.whole.series[key] ?? []).reduce((total, each) => total + (each ?? 0) * width, 0);
  const [own, others] = [sum("local_informative"), sum("external_informative")];
  const best = came.slice(0, 2).flatMap(([peer, each], i) => [i ? ", " : "", { tag: "span", class: "peer", text: `${friendly(peer)} ${short(peer)}` }, ` (${number(each.trained)})`]);
  const word = `${came.length} other${came.length === 1 ? "" : "s"}`;
  return [word, "good", [`${percent(others / Math.max(1, own + others))} of the groups that it trained on came from them, most from `, ...best, `.${gave}`]];
}

function next(state, status) {
  const training = status.training ?? {}, network = status.network ?? {};
  if (!("healthy" in status)) return ["Wait", "", "This page is waiting for an answer of the node."];
  if (!status.role) return status.paused ? ["Resume, then start it", "warn", "The node is paused and is not running."] : ["Start it", "warn", [`${status.problems?.[0] ?? "The node is not running"}.`]];
  if (status.paused) return ["Resume it when you like", "", training.resting ? "The node is paused: no training and no traffic." : "The node will pause after this round."];
  if (status.problems?.length) return ["Look at this", "bad", status.problems[0]];
  if (training.resting) return ["Nothing", "", `The node rests: ${training.resting}.`];
  if (status.state === "starting") return ["Wait", "", "The first round is not finished yet."];
  const recent = state.recent.series, informative = mean((recent.informative_share ?? []).slice(-FEW)), reward = mean((recent.reward ?? []).slice(-FEW));
  if (informative !== null && (recent.reward ?? []).length >= FEW && informative < 0.01)
    return reward > 0.5 ? ["Give it harder tasks", "warn", ["Nearly all answers are correct, so there is nothing to learn from: ", code("--environment.tasks"), "."]] : ["Give it easier tasks", "warn", ["Hardly any answer is correct, so there is nothing to learn from: ", code("--environment.tasks"), "."]];
  if (network.running && !network.connected) return ["Invite somebody", "", ["This node trains alone. ", { tag: "b", text: "Swarm" }, " shows how a friend can join."]];
  return ["Nothing", "good", ["This node trains and shares by itself. See what it has learned: ", code("swarm-node ask"), "."]];
}

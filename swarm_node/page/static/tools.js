// Helpers that every part uses. Text enters the page as text nodes alone, so that HTML in it has no effect.

export function make(name, attributes = {}, ...children) {
  const found = document.createElement(name);
  return fill(found, attributes, children);
}

export function draw(name, attributes = {}, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, children);
}

function fill(element, attributes, children) {
  for (const [key, value] of Object.entries(attributes)) {
    if (key === "style") Object.assign(element.style, value);
    else if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (value === true) element.setAttribute(key, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(key, value);
  }
  for (const child of children.flat()) {
    if (child === null || child === undefined) continue;
    element.append(typeof child === "object" ? child : document.createTextNode(visible(String(child))));
  }
  return element;
}

// Characters that are shown by their code points: by category (controls, formats, halves of pairs, private and unassigned ones, line and paragraph
// breaks), and letters and marks that show nothing. They are those that commands do not print (common/errors.py); a new line and a tab stay.
const HIDDEN = /(?![\n\t])[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Cn}\p{Zl}\p{Zp}\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0\u{e0100}-\u{e01ef}]/gu;

export function visible(text) {
  return text.replace(HIDDEN, (char) => `‹U+${char.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}›`);
}

export function replace(element, ...children) {
  element.replaceChildren(...children.flat().filter((child) => child !== null && child !== undefined));
}

export function number(value, digits = 3) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  if (size >= 1e9) return `${(value / 1e9).toFixed(2)} G`;
  if (size >= 1e6) return `${(value / 1e6).toFixed(2)} M`;
  if (size >= 10000) return `${(value / 1e3).toFixed(1)} k`;
  if (Number.isInteger(value)) return String(value);
  if (size >= 100) return value.toFixed(0);
  if (size >= 10) return value.toFixed(1);
  if (size > 0 && size < 0.001) return value.toExponential(1);
  return value.toFixed(digits);
}

export const percent = (value) => (value === null || value === undefined ? "–" : `${(100 * value).toFixed(value && value < 0.1 ? 1 : 0)} %`);

export function bytes(value) {
  if (value === null || value === undefined) return "–";
  for (const [unit, size] of [["GB", 1e9], ["MB", 1e6], ["kB", 1e3]]) if (value >= size) return `${(value / size).toFixed(1)} ${unit}`;
  return `${value} B`;
}

export function seconds(value) {
  if (value === null || value === undefined) return "–";
  if (value < 1) return `${Math.round(1000 * value)} ms`;
  if (value < 90) return `${value.toFixed(value < 10 ? 1 : 0)} s`;
  if (value < 5400) return `${Math.round(value / 60)} min`;
  if (value < 172800) return `${(value / 3600).toFixed(1)} h`;
  return `${(value / 86400).toFixed(1)} days`;
}

export const clock = (time) => new Date(1000 * time).toLocaleTimeString([], { hour12: false });

export const short = (peer) => (peer.length > 14 ? `…${peer.slice(-8)}` : peer);

export function tile(name, value, note = "") {
  return make("div", { class: "tile" }, make("dt", {}, name), make("dd", { class: /^[a-z]/i.test(value) ? "words" : "" }, value, note ? make("small", {}, note) : null));
}

export function table(caption, columns, rows) {
  const head = columns.map(([name, kind]) => make("th", { scope: "col", class: kind }, name));
  const body = rows.map((row) => make("tr", {}, row.map((cell, index) => make("td", { class: columns[index][1] }, cell))));
  return make(
    "div",
    { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    make("table", {}, make("caption", { class: "sr" }, caption), make("thead", {}, make("tr", {}, head)), make("tbody", {}, body)),
  );
}

export function facts(pairs) {
  return make("dl", { class: "kv" }, pairs.flatMap(([name, value]) => [make("dt", {}, name), make("dd", {}, value)]));
}

export function average(values, window) {
  const result = [];
  let total = 0, count = 0;
  for (let i = 0; i < values.length; i++) {
    if (values[i] !== null && values[i] !== undefined) { total += values[i]; count++; }
    const old = values[i - window];
    if (i >= window && old !== null && old !== undefined) { total -= old; count--; }
    result.push(count ? total / count : null);
  }
  return result;
}

export async function get(path) {
  const reply = await fetch(path, { credentials: "same-origin" });
  if (!reply.ok) throw new Error(`${reply.status}`);
  return reply.json();
}

// Over plain HTTP on another machine there is no clipboard: the text is selected, to be copied by hand.
export async function copied(button, element) {
  const name = button.textContent;
  try {
    await navigator.clipboard.writeText(element.textContent);
    button.textContent = "Copied";
  } catch {
    getSelection().selectAllChildren(element);
    button.textContent = "Selected: copy it";
  }
  setTimeout(() => { button.textContent = name; }, 2000);
}

// A browser with the cookie skips enter.html, which removes the token from the address. So it is removed here, too.
export function keepTokenOut() {
  if (location.hash.startsWith("#token=")) history.replaceState(null, "", location.pathname);
}

/**
 * Deletes each check of the client, one at a time: is a vector misread without it?   npm run deletions
 *
 * Checks are the code that refuses: each part of a condition, each bound of a field, each field, each handler of an
 * error, in all files but those of the network, which no vector reaches. Exit code 1: a deletion that no vector shows.
 */
import { readdirSync, readFileSync } from "node:fs";
import { registerHooks, stripTypeScriptTypes } from "node:module";
import { fileURLToPath } from "node:url";
import ts from "typescript";

const FOLDER = new URL("../src/", import.meta.url);
const BEYOND = ["cli.ts", "peer.ts", "stream.ts"];
const BOUNDS = { integer: ["Infinity", "-Infinity"], list: ["", "Infinity", "-Infinity"], text: ["Infinity"], within: ["-Infinity", "", "Infinity"] };
const { SyntaxKind } = ts;

/** Yields the parts of a condition, each with the constant that makes the condition more often this value. */
function* always(test, value) {
  if (ts.isParenthesizedExpression(test)) yield* always(test.expression, value);
  else if (ts.isPrefixUnaryExpression(test) && test.operator === SyntaxKind.ExclamationToken) yield* always(test.operand, !value);
  else if (ts.isBinaryExpression(test) && test.operatorToken.kind === (value ? SyntaxKind.AmpersandAmpersandToken : SyntaxKind.BarBarToken)) {
    yield* always(test.left, value);
    yield* always(test.right, value);
  } else yield [test, String(value)];
}

function refuses(node) {
  if (node === undefined) return false; // a return without a value
  if (ts.isBlock(node)) return refuses(node.statements.at(-1));
  if (ts.isReturnStatement(node)) return refuses(node.expression);
  return ts.isThrowStatement(node) || node.kind === SyntaxKind.FalseKeyword || node.kind === SyntaxKind.NullKeyword;
}

const isTest = (node) =>
  ts.isBinaryExpression(node) &&
  [SyntaxKind.AmpersandAmpersandToken, SyntaxKind.BarBarToken, SyntaxKind.EqualsEqualsEqualsToken].includes(node.operatorToken.kind);

/** Yields parts of the code, each with the text that stands in its place without the check. */
function* weaker(node) {
  if (ts.isIfStatement(node) && refuses(node.thenStatement)) yield* always(node.expression, false);
  if (ts.isConditionalExpression(node) && (refuses(node.whenTrue) || refuses(node.whenFalse))) {
    yield* always(node.condition, refuses(node.whenFalse));
  }
  if (ts.isReturnStatement(node) && node.expression && isTest(node.expression)) yield* always(node.expression, true);
  if (ts.isArrowFunction(node) && isTest(node.body)) yield* always(node.body, true);
  if (ts.isCatchClause(node) && !node.variableDeclaration) yield [node, "catch (error) { throw error; }"];
  if (ts.isPropertyAssignment(node) && node.initializer.kind === SyntaxKind.TrueKeyword) yield [node.initializer, "false"];
  if (ts.isParameter(node) && node.name.getText() === "least" && node.initializer) yield [node.initializer, "-Infinity"];
  if (!ts.isCallExpression(node)) return;
  const [name, given] = [node.expression.getText(), node.arguments];
  if (name === "refuseUnless") yield* always(given[0], true);
  if (name === "object") for (const field of given[0].properties ?? []) yield [field.initializer, "() => true"];
  for (const [i, bound] of (BOUNDS[name] ?? []).entries()) {
    if (bound && given[i] && given[i].getText() !== "Infinity") yield [given[i], bound];
  }
}

function checks(file) {
  const [text, found] = [readFileSync(new URL(file, FOLDER), "utf8"), new Map()];
  const source = ts.createSourceFile(file, text, ts.ScriptTarget.Latest, true);
  const visit = (node) => {
    for (const [each, instead] of weaker(node)) {
      const [from, to] = [each.getStart(), each.getEnd()];
      const line = source.getLineAndCharacterOfPosition(from).line + 1;
      const what = `${file}:${line}  ${text.slice(from, to).replace(/\s+/g, " ")}  ->  ${instead}`;
      found.set(`${from} ${to} ${instead}`, { file, what, text: text.slice(0, from) + instead + text.slice(to) });
    }
    node.forEachChild(visit);
  };
  visit(source);
  return [...found.values()];
}

const all = readdirSync(FOLDER).filter((name) => !BEYOND.includes(name)).flatMap(checks);
const compiled = new Map(); // JavaScript, by the text in TypeScript

/** `vectors.test.ts?3`, and all that it imports, is loaded with `?3`: that is the client without check 3. */
registerHooks({
  resolve(name, context, next) {
    const found = next(name.startsWith(".") ? name.replace(/\.js$/, ".ts") : name, context);
    const query = name.startsWith(".") && context.parentURL ? new URL(context.parentURL).search : "";
    return query ? { ...found, url: `${found.url}${query}`, format: "module" } : found;
  },
  load(url, context, next) {
    const { search, pathname } = new URL(url);
    if (!search) return next(url, context);
    const gone = all[Number(search.slice(1))];
    const text = gone && pathname.endsWith(`/src/${gone.file}`) ? gone.text : readFileSync(fileURLToPath(url.replace(search, "")), "utf8");
    if (!compiled.has(text)) compiled.set(text, stripTypeScriptTypes(text, { mode: "transform" }));
    return { format: "module", source: compiled.get(text), shortCircuit: true };
  },
});

async function misread(number) {
  try {
    return (await import(`./vectors.test.ts?${number}`)).first();
  } catch (error) {
    return String(error);
  }
}

const before = await misread(all.length);
if (before) throw new Error(`with all checks in place: ${before}`);
let unseen = 0;
for (const [number, { what }] of all.entries()) {
  const seen = await misread(number);
  unseen += seen ? 0 : 1;
  console.log(`${what}\n    ${seen?.slice(0, 100) ?? "NOTHING"}`);
}
console.log(`${all.length} checks deleted, ${unseen} unseen`);
process.exit(unseen ? 1 : 0);

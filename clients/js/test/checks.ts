/**
 * Lists the checks of the client, one deletion a line, for a script that demands that a vector fails without each:
 *
 *     npm ci --prefix clients/js && npm run --silent checks --prefix clients/js > runs/checks.jsonl
 *     python -m tests.protocol.deletions --source clients/js/src --checks runs/checks.jsonl \
 *         --run 'npm run --silent vectors --prefix clients/js' --runs runs/deletions_js.jsonl
 *
 * A check is what refuses: each part of a condition, each bound of a field, each field, each handler of an error.
 */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import ts from "typescript";

const FOLDER = join(import.meta.dirname, "../../src");
const BEYOND = ["cli.ts", "peer.ts", "stream.ts"]; // the network, which no vector reaches
const BOUNDS: Record<string, string[]> = { integer: ["Infinity", "-Infinity"], list: ["", "Infinity", "-Infinity"], text: ["Infinity"] };
const WITHIN = ["-Infinity", "", "Infinity"];
const ANYTHING = "() => true";
const { SyntaxKind } = ts;

type Weaker = [node: ts.Node, instead: string];

/** The condition with one of its parts fixed, so that it is rather this value. */
function* always(test: ts.Expression, value: boolean): Generator<Weaker> {
  if (ts.isParenthesizedExpression(test)) yield* always(test.expression, value);
  else if (ts.isPrefixUnaryExpression(test) && test.operator === SyntaxKind.ExclamationToken) yield* always(test.operand, !value);
  else if (ts.isBinaryExpression(test) && test.operatorToken.kind === (value ? SyntaxKind.AmpersandAmpersandToken : SyntaxKind.BarBarToken)) {
    yield* always(test.left, value);
    yield* always(test.right, value);
  } else yield [test, String(value)];
}

function refuses(node: ts.Node | undefined): boolean {
  if (node === undefined) return false;
  if (ts.isBlock(node)) return refuses(node.statements.at(-1));
  if (ts.isReturnStatement(node)) return refuses(node.expression);
  return ts.isThrowStatement(node) || node.kind === SyntaxKind.FalseKeyword || node.kind === SyntaxKind.NullKeyword;
}

const isTest = (node: ts.Expression): boolean =>
  ts.isBinaryExpression(node) &&
  [SyntaxKind.AmpersandAmpersandToken, SyntaxKind.BarBarToken, SyntaxKind.EqualsEqualsEqualsToken].includes(node.operatorToken.kind);

function* weaker(node: ts.Node): Generator<Weaker> {
  if (ts.isIfStatement(node) && refuses(node.thenStatement)) yield* always(node.expression, false);
  if (ts.isConditionalExpression(node) && (refuses(node.whenTrue) || refuses(node.whenFalse))) {
    yield* always(node.condition, refuses(node.whenFalse));
  }
  if (ts.isReturnStatement(node) && node.expression && isTest(node.expression)) yield* always(node.expression, true);
  if (ts.isArrowFunction(node) && !ts.isBlock(node.body) && isTest(node.body)) yield* always(node.body, true);
  if (ts.isCatchClause(node) && node.variableDeclaration === undefined) yield [node, "catch (error) { throw error; }"];
  if (ts.isPropertyAssignment(node) && node.initializer.kind === SyntaxKind.TrueKeyword) yield [node.initializer, "false"];
  if (ts.isParameter(node) && node.name.getText() === "least" && node.initializer) yield [node.initializer, "-Infinity"];
  if (!ts.isCallExpression(node)) return;
  const [name, [first]] = [node.expression.getText(), node.arguments];
  if (name === "refuseUnless") yield* always(first!, true);
  if (name === "object" && ts.isObjectLiteralExpression(first!)) {
    for (const field of first.properties) if (ts.isPropertyAssignment(field)) yield [field.initializer, ANYTHING];
  }
  const bounds = name === "within" ? WITHIN : (BOUNDS[name] ?? []);
  for (const [i, bound] of bounds.entries()) if (bound && node.arguments[i] && node.arguments[i].getText() !== "Infinity") yield [node.arguments[i], bound];
}

function* checks(file: string, source: ts.SourceFile): Generator<object> {
  const bytes = (end: number): number => Buffer.byteLength(source.text.slice(0, end));
  const below: ts.Node[] = [source];
  for (let node = below.pop(); node; node = below.pop()) {
    node.forEachChild((child) => void below.push(child));
    for (const [each, instead] of weaker(node)) {
      const line = source.getLineAndCharacterOfPosition(each.getStart()).line + 1;
      yield { file: `clients/js/src/${file}`, line, start: bytes(each.getStart()), end: bytes(each.getEnd()), instead };
    }
  }
}

for (const file of readdirSync(FOLDER).filter((name) => !BEYOND.includes(name))) {
  const text = readFileSync(join(FOLDER, file), "utf8");
  const found = [...checks(file, ts.createSourceFile(file, text, ts.ScriptTarget.Latest, true))];
  for (const line of new Set(found.map((each) => JSON.stringify(each)))) console.log(line);
}

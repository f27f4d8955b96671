// What an expression of a query is worth: for a row, or for the rows of a group.
import type { Expression, Value } from "./parse";
import { SqlError } from "./tokens";

/** A cell of the table by column and row. */
export type Cell = (row: number) => Value;
export interface Scope {
  cell(column: string): Cell;
  /** Of a query with groups: whether an expression is one of those that it groups by. */
  isGrouped(expression: Expression): boolean;
}
/** Given the rows that stand together; of a plain query that is one row. */
export type Worth = (rows: readonly number[]) => Value;

const SCALARS: Record<string, (...values: Value[]) => Value> = {
  abs: (value) => numeric(value, Math.abs),
  floor: (value) => numeric(value, Math.floor),
  ceil: (value) => numeric(value, Math.ceil),
  sqrt: (value) => numeric(value, Math.sqrt),
  log10: (value) => numeric(value, Math.log10),
  round: (value, digits = 0) => numeric(value, (number) => Math.round(number * 10 ** Number(digits)) / 10 ** Number(digits)),
  lower: (value) => (value === null ? null : shown(value).toLowerCase()),
  upper: (value) => (value === null ? null : shown(value).toUpperCase()),
  length: (value) => (value === null ? null : shown(value).length),
  substr: (value, from = 1, count = Infinity) =>
    value === null ? null : shown(value).slice(Number(from) - 1, Number(from) - 1 + Number(count)),
  replace: (value, from = "", to = "") => (value === null ? null : shown(value).replaceAll(shown(from), shown(to))),
  coalesce: (...values) => values.find((value) => value !== null) ?? null,
};
const AGGREGATES: Record<string, (values: Value[]) => Value> = {
  count: (values) => values.length,
  sum: (values) => (values.length ? numbers(values, "sum").reduce((sum, value) => sum + value, 0) : null),
  avg: (values) => (values.length ? numbers(values, "avg").reduce((sum, value) => sum + value, 0) / values.length : null),
  median: (values) => middle(numbers(values, "median").sort((a, b) => a - b)),
  min: (values) => extreme(values, -1),
  max: (values) => extreme(values, 1),
};
AGGREGATES["mean"] = AGGREGATES["avg"];

export const FUNCTIONS = [...Object.keys(AGGREGATES), ...Object.keys(SCALARS)];

export function hasAggregate(expression: Expression): boolean {
  switch (expression.kind) {
    case "call":
      return Object.hasOwn(AGGREGATES, expression.name) || expression.arguments.some(hasAggregate);
    case "binary":
      return hasAggregate(expression.left) || hasAggregate(expression.right);
    case "unary":
    case "like":
    case "in":
    case "null":
      return hasAggregate(expression.of);
    case "case":
      return expression.branches.flat().some(hasAggregate) || hasAggregate(expression.otherwise);
    default:
      return false;
  }
}

/** `inGroup`: columns must be aggregated or grouped by. */
export function worthOf(expression: Expression, scope: Scope, inGroup: boolean): Worth {
  const of = (inner: Expression): Worth => worthOf(inner, scope, inGroup && !scope.isGrouped(expression));
  switch (expression.kind) {
    case "value":
      return () => expression.value;
    case "column":
      return columnOf(expression.name, scope, inGroup && !scope.isGrouped(expression));
    case "unary": {
      const inner = of(expression.of);
      if (expression.operator === "-") return (rows) => numeric(inner(rows), (value) => -value);
      return (rows) => negated(inner(rows));
    }
    case "binary":
      return binary(expression.operator, of(expression.left), of(expression.right));
    case "like": {
      const [inner, pattern] = [of(expression.of), of(expression.pattern)];
      const matches = matcher(expression.folds);
      return (rows) => {
        const [value, wanted] = [inner(rows), pattern(rows)];
        return value === null || wanted === null ? null : matches(shown(value), shown(wanted)) !== expression.not;
      };
    }
    case "in": {
      const [inner, among] = [of(expression.of), expression.among.map(of)];
      return (rows) => {
        const value = inner(rows);
        return value === null ? null : among.some((other) => compare(value, other(rows)) === 0) !== expression.not;
      };
    }
    case "null": {
      const inner = of(expression.of);
      return (rows) => (inner(rows) === null) !== expression.not;
    }
    case "case": {
      const branches = expression.branches.map(([when, then]) => [of(when), of(then)] as const);
      const otherwise = of(expression.otherwise);
      return (rows) => (branches.find(([when]) => isTrue(when(rows)))?.[1] ?? otherwise)(rows);
    }
    case "call":
      return call(expression, scope, inGroup);
  }
}

function columnOf(name: string, scope: Scope, mustAggregate: boolean): Worth {
  const cell = scope.cell(name);
  if (mustAggregate) {
    throw new SqlError(`${name} is neither grouped by nor summed: write sum(${name}) or max(${name}), or add it to group by.`);
  }
  return (rows) => (rows.length ? cell(rows[0]) : null);
}

function call(expression: Extract<Expression, { kind: "call" }>, scope: Scope, inGroup: boolean): Worth {
  const { name, arguments: given, distinct, star } = expression;
  if (Object.hasOwn(AGGREGATES, name)) {
    if (!inGroup) throw new SqlError(`${name}() sums rows up and cannot stand here: use having, not where.`);
    if (star && name === "count") return (rows) => rows.length;
    if (given.length !== 1) throw new SqlError(`${name}() takes one column.`);
    if (hasAggregate(given[0])) throw new SqlError(`${name}() cannot hold another sum.`);
    const inner = worthOf(given[0], scope, false);
    const aggregate = AGGREGATES[name];
    return (rows) => {
      const values = rows.map((row) => inner([row])).filter((value) => value !== null);
      return aggregate(distinct ? [...new Set(values)] : values);
    };
  }
  if (!Object.hasOwn(SCALARS, name)) throw new SqlError(`There is no function ${name}; there are ${FUNCTIONS.join(", ")}.`);
  const inner = given.map((argument) => worthOf(argument, scope, inGroup && !scope.isGrouped(expression)));
  return (rows) => SCALARS[name](...inner.map((worth) => worth(rows)));
}

function binary(operator: string, left: Worth, right: Worth): Worth {
  switch (operator) {
    case "and":
      return (rows) => isTrue(left(rows)) && isTrue(right(rows));
    case "or":
      return (rows) => isTrue(left(rows)) || isTrue(right(rows));
    case "||":
      return (rows) => {
        const [a, b] = [left(rows), right(rows)];
        return a === null || b === null ? null : shown(a) + shown(b);
      };
    case "+":
    case "-":
    case "*":
    case "/":
    case "%":
      return arithmetic(operator, left, right);
    default:
      return (rows) => {
        const order = compare(left(rows), right(rows));
        if (order === null) return null;
        return (
          { "=": order === 0, "!=": order !== 0, "<": order < 0, "<=": order <= 0, ">": order > 0, ">=": order >= 0 }[operator] ?? null
        );
      };
  }
}

const ARITHMETIC: Record<string, (a: number, b: number) => number> = {
  "+": (a, b) => a + b,
  "-": (a, b) => a - b,
  "*": (a, b) => a * b,
  "/": (a, b) => a / b,
  "%": (a, b) => a % b,
};

function arithmetic(operator: string, left: Worth, right: Worth): Worth {
  return (rows) => {
    const [a, b] = [left(rows), right(rows)];
    if (a === null || b === null) return null;
    const value = ARITHMETIC[operator](number(a, operator), number(b, operator));
    return Number.isFinite(value) ? value : null;
  };
}

export function isTrue(value: Value): boolean {
  return value === true || (typeof value === "number" && value !== 0);
}
function negated(value: Value): Value {
  return value === null ? null : !isTrue(value);
}

/** The order of two values, null where one is missing; numbers and texts compare as texts. */
export function compare(a: Value, b: Value): number | null {
  if (a === null || b === null) return null;
  if (typeof a !== "string" && typeof b !== "string") return Number(a) - Number(b);
  const [left, right] = [shown(a), shown(b)];
  return left < right ? -1 : left > right ? 1 : 0;
}

function shown(value: Value): string {
  return String(value);
}
function number(value: Value, where: string): number {
  const result = Number(value);
  if (typeof value === "string" && (!value.trim() || Number.isNaN(result))) {
    throw new SqlError(`${where} needs numbers; “${value.slice(0, 40)}” is a text.`);
  }
  return result;
}
function numbers(values: Value[], where: string): number[] {
  return values.map((value) => number(value, where));
}
function numeric(value: Value, of: (value: number) => number): Value {
  if (value === null) return null;
  const result = of(number(value, "this"));
  return Number.isFinite(result) ? result : null;
}
function middle(sorted: number[]): Value {
  if (!sorted.length) return null;
  return (sorted[(sorted.length - 1) >> 1] + sorted[sorted.length >> 1]) / 2;
}
function extreme(values: Value[], sign: number): Value {
  return values.reduce<Value>((best, value) => (best === null || sign * (compare(value, best) ?? 0) > 0 ? value : best), null);
}

/** % stands for any characters and _ for one. Compiled once per pattern. */
function matcher(folds: boolean): (text: string, pattern: string) => boolean {
  const compiled = new Map<string, RegExp>();
  return (text, pattern) => {
    let expression = compiled.get(pattern);
    if (!expression) {
      const source = pattern
        .replace(/[.*+?^${}()|[\]\\]/g, "\\$&")
        .replaceAll("%", "[^]*")
        .replaceAll("_", "[^]");
      compiled.set(pattern, (expression = new RegExp(`^${source}$`, folds ? "i" : "")));
    }
    return expression.test(text);
  };
}

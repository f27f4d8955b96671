// Runs a query over one table of the page and gives another.
import { Table, type Column } from "../data/table";
import { compare, hasAggregate, isTrue, worthOf, type Scope, type Worth } from "./evaluate";
import { parse, type Expression, type Query, type Value } from "./parse";
import { SqlError } from "./tokens";

export const RESULT = "query";
const MOST_NAMED = 40; // of a table's columns or the page's tables, in a message

export interface Source {
  names: string[];
  table(name: string): Table;
}

export function runQuery(text: string, source: Source): Table {
  const query = parse(text);
  const name = source.names.find((candidate) => candidate === query.from) ?? source.names.find((own) => own === query.from.toLowerCase());
  if (name === undefined) throw new SqlError(`There is no table ${query.from}; there are ${source.names.join(", ")}.`);
  return new Run(query, source.table(name)).result(text);
}

interface Output {
  name: string;
  worth: Worth;
  /** The column that it is, where it is one. */
  column: Column | null;
}
interface Line {
  rows: readonly number[];
  values: Value[];
}

class Run {
  private readonly scope: Scope;
  private readonly isGrouped: boolean;
  private readonly outputs: Output[];
  private readonly grouped: Set<string>;

  constructor(
    private readonly query: Query,
    private readonly table: Table,
  ) {
    const shownExpressions = query.columns.flatMap((column) => column?.expression ?? []);
    const summed = [...shownExpressions, ...query.orderBy.map(({ expression }) => expression), ...(query.having ? [query.having] : [])];
    this.isGrouped = query.groupBy.length > 0 || summed.some(hasAggregate);
    this.grouped = new Set(query.groupBy.map((expression) => JSON.stringify(this.named(expression))));
    this.scope = {
      cell: (name) => this.cell(name),
      isGrouped: (expression) => this.grouped.has(JSON.stringify(expression)),
    };
    this.outputs = query.columns.flatMap((column) => (column ? [this.output(column)] : this.everything()));
  }

  result(text: string): Table {
    const { query } = this;
    let lines = this.groups().map((rows): Line => ({ rows, values: this.outputs.map(({ worth }) => worth(rows)) }));
    if (query.having) {
      const having = this.worth(query.having);
      lines = lines.filter(({ rows }) => isTrue(having(rows)));
    }
    if (query.distinct) lines = [...new Map(lines.map((line) => [JSON.stringify(line.values), line])).values()];
    this.sort(lines);
    lines = lines.slice(query.offset, query.offset + query.limit);
    return tableOf(this.outputs, lines, text);
  }

  private column(name: string): Column {
    const { columns } = this.table;
    const column = columns.find((own) => own.name === name) ?? columns.find((own) => own.name === name.toLowerCase());
    if (column) return column;
    const names = columns.slice(0, MOST_NAMED).map((own) => own.name);
    throw new SqlError(`${this.table.name} has no column ${name}; it has ${names.join(", ")}. Texts stand in 'single' quotation marks.`);
  }
  private cell(name: string): (row: number) => Value {
    const { table } = this;
    const { kind, values } = this.column(name);
    if (kind === "text") return (row) => (values[row] < 0 ? null : table.texts[values[row]]);
    if (kind === "bool") return (row) => values[row] === 1;
    return (row) => (Number.isNaN(values[row]) ? null : values[row]);
  }
  /** A name that the query gave stands for what it names; so does a column's number. */
  private named(expression: Expression): Expression {
    const { columns } = this.query;
    if (expression.kind === "value" && typeof expression.value === "number") {
      const column = columns[expression.value - 1];
      if (!column) throw new SqlError(`There is no column number ${expression.value} in this query.`);
      return column.expression;
    }
    return this.withNames(expression) as Expression;
  }
  private withNames(part: unknown): unknown {
    if (Array.isArray(part)) return part.map((inner) => this.withNames(inner));
    if (part === null || typeof part !== "object") return part;
    const expression = part as Expression;
    if (expression.kind === "column" && !this.table.has(expression.name))
      return this.query.columns.find((column) => column?.name === expression.name)?.expression ?? expression;
    return Object.fromEntries(Object.entries(expression).map(([key, inner]) => [key, this.withNames(inner)]));
  }
  private worth(expression: Expression): Worth {
    return worthOf(this.named(expression), this.scope, this.isGrouped);
  }
  private output({ expression, name }: { expression: Expression; name: string }): Output {
    return { name, worth: worthOf(expression, this.scope, this.isGrouped), column: this.unitOf(expression) };
  }
  /** The column that an expression is, or whose unit it has: a sum of bytes is bytes. */
  private unitOf(expression: Expression): Column | null {
    if (expression.kind === "column") return this.column(expression.name);
    if (expression.kind !== "call" || expression.name === "count" || expression.arguments[0]?.kind !== "column") return null;
    const column = this.column(expression.arguments[0].name);
    return column.kind === "number" ? { ...column, meaning: `${expression.name} of: ${column.meaning}` } : null;
  }
  private everything(): Output[] {
    if (this.isGrouped) throw new SqlError("* cannot be grouped: name the columns that you want.");
    return this.table.columns.map((column) => {
      const cell = this.cell(column.name);
      return { name: column.name, worth: (rows) => cell(rows[0]), column };
    });
  }

  /** The rows that pass, each alone or in their groups. */
  private groups(): (readonly number[])[] {
    const { where, groupBy } = this.query;
    if (where && hasAggregate(where)) throw new SqlError("where looks at single rows: conditions on sums stand in having.");
    const passes = where ? worthOf(where, this.scope, false) : () => true;
    const rows: number[] = [];
    for (let row = 0; row < this.table.rows; row++) if (isTrue(passes([row]))) rows.push(row);
    if (!this.isGrouped) return rows.map((row) => [row]);
    if (!groupBy.length) return [rows];
    const keys = groupBy.map((expression) => worthOf(this.named(expression), this.scope, false));
    const groups = new Map<string, number[]>();
    for (const row of rows) {
      const key = JSON.stringify(keys.map((worth) => worth([row])));
      const group = groups.get(key);
      if (group) group.push(row);
      else groups.set(key, [row]);
    }
    return [...groups.values()];
  }

  private sort(lines: Line[]): void {
    const orders = this.query.orderBy.map(({ expression, descending }) => ({ worth: this.worth(expression), sign: descending ? -1 : 1 }));
    if (!orders.length) return;
    const keys = new Map(lines.map((line) => [line, orders.map(({ worth }) => worth(line.rows))]));
    lines.sort((a, b) => {
      for (let at = 0; at < orders.length; at++) {
        const [x, y] = [keys.get(a)![at], keys.get(b)![at]];
        // What has no value comes last, whatever the direction.
        const order = x === null || y === null ? Number(x === null) - Number(y === null) : orders[at].sign * (compare(x, y) ?? 0);
        if (order) return order;
      }
      return 0;
    });
  }
}

function tableOf(outputs: Output[], lines: Line[], text: string): Table {
  const texts: string[] = [];
  const codes = new Map<string, number>();
  const code = (value: string): number => {
    let known = codes.get(value);
    if (known === undefined) codes.set(value, (known = texts.push(value) - 1));
    return known;
  };
  const names = new Map<string, number>();
  const columns = outputs.map(({ name, column }, at): Column => {
    const times = (names.get(name) ?? 0) + 1;
    names.set(name, times);
    const values = lines.map((line) => line.values[at]);
    const shared = { name: times > 1 ? `${name}_${times}` : name, unit: column?.unit ?? "", meaning: column?.meaning ?? name };
    if (values.some((value) => typeof value === "string") || (column?.kind === "text" && values.every((value) => value === null)))
      return { ...shared, kind: "text", values: Int32Array.from(values, (value) => (value === null ? -1 : code(String(value)))) };
    const isBool = values.length > 0 && values.every((value) => typeof value === "boolean");
    return {
      ...shared,
      kind: isBool ? "bool" : "number",
      values: Float64Array.from(values, (value) => (value === null ? NaN : Number(value))),
    };
  });
  return new Table({ name: RESULT, meaning: text, notes: [], rows: lines.length, columns }, texts);
}

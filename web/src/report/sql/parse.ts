// From a query's text to what it asks for: select … from … where … group by … having … order by … limit.
import { SqlError, tokensOf, type Token } from "./tokens";

export type Value = number | string | boolean | null;
export type Expression =
  | { kind: "value"; value: Value }
  | { kind: "column"; name: string }
  | { kind: "unary"; operator: "-" | "not"; of: Expression }
  | { kind: "binary"; operator: string; left: Expression; right: Expression }
  | { kind: "like"; of: Expression; pattern: Expression; folds: boolean; not: boolean }
  | { kind: "in"; of: Expression; among: Expression[]; not: boolean }
  | { kind: "null"; of: Expression; not: boolean }
  | { kind: "case"; branches: [when: Expression, then: Expression][]; otherwise: Expression }
  /** `star`: count(*). */
  | { kind: "call"; name: string; arguments: Expression[]; distinct: boolean; star: boolean };

export interface Query {
  distinct: boolean;
  /** Null stands for all columns. */
  columns: ({ expression: Expression; name: string } | null)[];
  from: string;
  where: Expression | null;
  groupBy: Expression[];
  having: Expression | null;
  orderBy: { expression: Expression; descending: boolean }[];
  limit: number;
  offset: number;
}

const RESERVED = new Set(
  "select distinct from where group by having order limit offset as and or not like ilike in between is null case when then else end asc desc".split(
    " ",
  ),
);
const UNSUPPORTED: Record<string, string> = {
  join: "joins",
  union: "union",
  with: "with",
  insert: "insert",
  update: "update",
  delete: "delete",
  create: "create",
  drop: "drop",
};
const COMPARISONS = ["=", "!=", "<>", "<", "<=", ">", ">="];

export function parse(text: string): Query {
  const parser = new Parser(tokensOf(text));
  return parser.query();
}

class Parser {
  private at = 0;

  constructor(private readonly tokens: Token[]) {}

  query(): Query {
    this.refuse();
    this.expect("select", "A query begins with select, as in: select kernel, total_us from kernels order by total_us desc limit 10.");
    const distinct = this.take("distinct");
    const columns = this.list(() => this.column());
    this.expect("from", "After the columns comes from and the name of a table.");
    const from = this.name("a table");
    this.refuse();
    this.refuseAlias();
    if (this.sees(",")) throw new SqlError("One table at a time: joins are not supported here, and warplens sql has them.");
    const where = this.take("where") ? this.expression() : null;
    const groupBy = this.takeBoth("group", "by") ? this.list(() => this.expression()) : [];
    const having = this.take("having") ? this.expression() : null;
    const orderBy = this.takeBoth("order", "by") ? this.list(() => this.ordered()) : [];
    const limit = this.take("limit") ? this.whole("limit") : Infinity;
    const offset = this.take("offset") ? this.whole("offset") : 0;
    this.refuse();
    if (this.token.kind !== "end") throw new SqlError(`${this.shown()} is not expected here, after ${this.before()}.`);
    return { distinct, columns, from, where, groupBy, having, orderBy, limit, offset };
  }

  private get token(): Token {
    return this.tokens[this.at];
  }
  private sees(text: string): boolean {
    const { kind, text: own } = this.token;
    return (kind === "word" && own.toLowerCase() === text) || (kind === "sign" && own === text);
  }
  private take(text: string): boolean {
    if (!this.sees(text)) return false;
    this.at++;
    return true;
  }
  private takeBoth(first: string, second: string): boolean {
    if (!this.take(first)) return false;
    this.expect(second, `After ${first} comes ${second}.`);
    return true;
  }
  private expect(text: string, problem: string): void {
    if (!this.take(text)) throw new SqlError(`${problem} Here is ${this.shown()}.`);
  }
  private shown(): string {
    return this.token.kind === "end" ? "the end of the query" : this.token.text;
  }
  private before(): string {
    return this.tokens[this.at - 1]?.text ?? "the beginning";
  }
  /** What SQL has and this has not. */
  private refuse(): void {
    const word = this.token.kind === "word" ? this.token.text.toLowerCase() : "";
    const what = Object.hasOwn(UNSUPPORTED, word) ? UNSUPPORTED[word] : /^(inner|left|right|full|cross)$/.test(word) ? "joins" : "";
    if (what) throw new SqlError(`This box reads one table: it has no ${what}. The command warplens sql has all of SQL.`);
  }
  private refuseAlias(): void {
    const { kind, text } = this.token;
    const isAlias = this.take("as") || kind === "name" || (kind === "word" && !RESERVED.has(text.toLowerCase()));
    if (isAlias)
      throw new SqlError(
        `This box reads one table: it has no aliases or joins (${this.shown()}). The command warplens sql has all of SQL.`,
      );
  }
  private list<T>(item: () => T): T[] {
    const items = [item()];
    while (this.take(",")) items.push(item());
    return items;
  }
  private name(what: string): string {
    const { kind, text } = this.token;
    if (kind !== "name" && (kind !== "word" || RESERVED.has(text.toLowerCase())))
      throw new SqlError(`The name of ${what} is missing; here is ${this.shown()}.`);
    this.at++;
    return text;
  }
  private whole(what: string): number {
    const { kind, text } = this.token;
    if (kind !== "number" || !/^\d+$/.test(text)) throw new SqlError(`After ${what} comes a whole number; here is ${this.shown()}.`);
    this.at++;
    return Number(text);
  }

  private column(): Query["columns"][number] {
    if (this.take("*")) return null;
    const start = this.at;
    const expression = this.expression();
    const { kind, text } = this.token;
    const isNamed = this.take("as") || kind === "name" || (kind === "word" && !RESERVED.has(text.toLowerCase()));
    return { expression, name: isNamed ? this.name("the column") : this.written(start) };
  }
  /** What a column without a name is called: as it was written. */
  private written(start: number): string {
    return this.tokens
      .slice(start, this.at)
      .map(({ kind, text }) => (kind === "text" ? `'${text}'` : text))
      .join(" ")
      .replace(/ ?([(.]) ?/g, "$1")
      .replace(/ ([),])/g, "$1");
  }
  private ordered(): Query["orderBy"][number] {
    const expression = this.expression();
    const descending = this.take("desc");
    if (!descending) this.take("asc");
    return { expression, descending };
  }

  private expression(): Expression {
    let left = this.conjunction();
    while (this.take("or")) left = { kind: "binary", operator: "or", left, right: this.conjunction() };
    return left;
  }
  private conjunction(): Expression {
    let left = this.negation();
    while (this.take("and")) left = { kind: "binary", operator: "and", left, right: this.negation() };
    return left;
  }
  private negation(): Expression {
    return this.take("not") ? { kind: "unary", operator: "not", of: this.negation() } : this.comparison();
  }
  private comparison(): Expression {
    const left = this.sum();
    const sign = COMPARISONS.find((operator) => this.sees(operator));
    if (sign) {
      this.at++;
      return { kind: "binary", operator: sign === "<>" ? "!=" : sign, left, right: this.sum() };
    }
    if (this.take("is")) {
      const not = this.take("not");
      this.expect("null", "After is comes null or not null.");
      return { kind: "null", of: left, not };
    }
    const not = this.take("not");
    if (this.sees("like") || this.sees("ilike")) {
      const folds = this.sees("ilike");
      this.at++;
      return { kind: "like", of: left, pattern: this.sum(), folds, not };
    }
    if (this.take("in")) {
      this.expect("(", "After in comes a list in parentheses.");
      const among = this.list(() => this.expression());
      this.expect(")", "The list after in is not closed.");
      return { kind: "in", of: left, among, not };
    }
    if (this.take("between")) return this.between(left, not);
    if (not) throw new SqlError(`After not comes like, in or between; here is ${this.shown()}.`);
    return left;
  }
  private between(of: Expression, not: boolean): Expression {
    const low = this.sum();
    this.expect("and", "Between needs two bounds: between 1 and 10.");
    const inside: Expression = {
      kind: "binary",
      operator: "and",
      left: { kind: "binary", operator: ">=", left: of, right: low },
      right: { kind: "binary", operator: "<=", left: of, right: this.sum() },
    };
    return not ? { kind: "unary", operator: "not", of: inside } : inside;
  }
  private sum(): Expression {
    return this.leftToRight(["+", "-", "||"], () => this.leftToRight(["*", "/", "%"], () => this.factor()));
  }
  private leftToRight(operators: string[], next: () => Expression): Expression {
    let left = next();
    for (;;) {
      const operator = operators.find((candidate) => this.sees(candidate));
      if (!operator) return left;
      this.at++;
      left = { kind: "binary", operator, left, right: next() };
    }
  }
  private factor(): Expression {
    if (this.take("-")) return { kind: "unary", operator: "-", of: this.factor() };
    if (this.take("+")) return this.factor();
    if (this.take("(")) {
      const inside = this.expression();
      this.expect(")", "A parenthesis is not closed.");
      return inside;
    }
    const { kind, text } = this.token;
    const word = kind === "word" ? text.toLowerCase() : "";
    if (kind === "number" || kind === "text") {
      this.at++;
      return { kind: "value", value: kind === "number" ? Number(text) : text };
    }
    if (word === "null" || word === "true" || word === "false") {
      this.at++;
      return { kind: "value", value: word === "null" ? null : word === "true" };
    }
    if (word === "case") return this.cases();
    if (kind === "word" && this.tokens[this.at + 1].text === "(" && this.tokens[this.at + 1].kind === "sign") return this.call(word);
    const name = this.name("a column");
    // The only table's own name may stand before a column.
    return { kind: "column", name: this.take(".") ? this.name("a column") : name };
  }
  private call(name: string): Expression {
    this.at += 2;
    if (this.take("*")) {
      this.expect(")", `${name}(* is not closed.`);
      return { kind: "call", name, arguments: [], distinct: false, star: true };
    }
    const distinct = this.take("distinct");
    const inside = this.sees(")") ? [] : this.list(() => this.expression());
    this.expect(")", `The parenthesis after ${name} is not closed.`);
    return { kind: "call", name, arguments: inside, distinct, star: false };
  }
  private cases(): Expression {
    this.at++;
    const branches: [Expression, Expression][] = [];
    while (this.take("when")) {
      const when = this.expression();
      this.expect("then", "After when and its condition comes then.");
      branches.push([when, this.expression()]);
    }
    if (!branches.length) throw new SqlError("After case comes when.");
    const otherwise: Expression = this.take("else") ? this.expression() : { kind: "value", value: null };
    this.expect("end", "case is closed by end.");
    return { kind: "case", branches, otherwise };
  }
}

// The filter language: words that any text cell must hold, column:text, and column>number.
import type { Column, Table } from "../../data/table";

export interface Filtered {
  /** 1 per row that stays; null: all of them. */
  keep: Uint8Array | null;
  /** What is wrong with the filter, in words; nothing is filtered then. */
  problem: string;
}
type Test = (row: number) => boolean;
type Operator = ":" | ">" | ">=" | "<" | "<=" | "=" | "!=";

class Wrong extends Error {}

export const FILTER_HELP =
  'Words match any text cell; all must match. column:text looks in one column, column>10 (also >= < <= = !=) compares numbers, "quotes" keep a phrase together. For sums, groups and joins: warplens sql FILE "SELECT …" in a shell.';

export function filterRows(table: Table, text: string): Filtered {
  try {
    const tests = tokens(text).map((token) => testOf(table, token));
    if (!tests.length) return { keep: null, problem: "" };
    const keep = new Uint8Array(table.rows);
    for (let row = 0; row < table.rows; row++) keep[row] = tests.every((test) => test(row)) ? 1 : 0;
    return { keep, problem: "" };
  } catch (error) {
    if (error instanceof Wrong) return { keep: null, problem: error.message };
    throw error;
  }
}

/** Rows with the text in any cell, whatever its case. */
export function rowsWith(table: Table, text: string): Uint8Array {
  const test = anywhere(table, text);
  return Uint8Array.from({ length: table.rows }, (_, row) => (test(row) ? 1 : 0));
}

/** A filter that finds this text anywhere; where it holds quotation marks, what is between them. */
export function quoted(text: string): string {
  return text
    .split('"')
    .filter((part) => part.trim())
    .map((part) => `"${part}"`)
    .join(" ");
}

interface Token {
  column: string;
  operator: Operator | "";
  value: string;
}

const TOKEN = /(?:([A-Za-z_]\w*)(>=|<=|!=|[><=]|:(?!:)))?(?:"([^"]*)"|([^\s"]+))(?=\s|$)/y;
const UNFINISHED = /^[A-Za-z_]\w*(>=|<=|!=|[><=:])$/;

function tokens(text: string): Token[] {
  const tokens: Token[] = [];
  let at = 0;
  for (;;) {
    while (/\s/.test(text[at] ?? "")) at++;
    if (at >= text.length) return tokens;
    TOKEN.lastIndex = at;
    const match = TOKEN.exec(text);
    if (!match) throw new Wrong(`Unmatched quotation mark in ${text.slice(at)}.`);
    const [, column = "", operator = "", phrase, word = ""] = match;
    if (UNFINISHED.test(word)) throw new Wrong(`No value after ${word}: write it without a space.`);
    tokens.push({ column, operator: operator as Token["operator"], value: phrase ?? word });
    at = TOKEN.lastIndex;
  }
}

function testOf(table: Table, { column: name, operator, value }: Token): Test {
  if (!operator) return anywhere(table, value);
  const column = table.columns.find((candidate) => candidate.name === name);
  if (!column) throw new Wrong(`There is no column ${name} here. To look for these characters, put them in "quotes".`);
  if (column.kind === "text") return textTest(table, column, operator, value);
  return column.kind === "bool" ? boolTest(column, operator, value) : numberTest(column, operator, value);
}

function anywhere(table: Table, value: string): Test {
  const hit = matching(table.texts, value);
  const columns = table.columns.filter(({ kind }) => kind === "text").map(({ values }) => values);
  return (row) => columns.some((values) => hit[values[row]] === 1);
}

function textTest(table: Table, column: Column, operator: Operator, value: string): Test {
  const { values } = column;
  if (operator === ":") {
    const hit = matching(table.texts, value);
    return (row) => hit[values[row]] === 1;
  }
  if (operator !== "=" && operator !== "!=")
    throw new Wrong(`${column.name} holds text: write ${column.name}:${value} or ${column.name}=${value}.`);
  const wanted = value.toLowerCase();
  return (row) => (table.textOf(column, row).toLowerCase() === wanted) === (operator === "=");
}

function boolTest({ name, values }: Column, operator: Operator, value: string): Test {
  const wanted = { yes: 1, true: 1, no: 0, false: 0 }[value.toLowerCase()];
  if (wanted === undefined || !["=", ":", "!="].includes(operator))
    throw new Wrong(`${name} is yes or no: write ${name}=yes or ${name}=no.`);
  return operator === "!=" ? (row) => values[row] !== wanted : (row) => values[row] === wanted;
}

function numberTest({ name, values }: Column, operator: Operator, text: string): Test {
  const value = Number(text.replaceAll(",", ""));
  if (!text.trim() || Number.isNaN(value))
    throw new Wrong(`${name} holds numbers; ${text || "an empty text"} is not a number: write ${name}>10.`);
  switch (operator) {
    case ">":
      return (row) => values[row] > value;
    case ">=":
      return (row) => values[row] >= value;
    case "<":
      return (row) => values[row] < value;
    case "<=":
      return (row) => values[row] <= value;
    case "!=":
      return (row) => values[row] !== value;
    default:
      return (row) => values[row] === value;
  }
}

const folded = new WeakMap<string[], string[]>();

/** Per text of a list whether it holds this one; the list is made lower-case once. */
function matching(texts: string[], part: string): Uint8Array {
  let lower = folded.get(texts);
  if (!lower) folded.set(texts, (lower = texts.map((text) => text.toLowerCase())));
  const wanted = part.toLowerCase();
  return Uint8Array.from(lower, (text) => (text.includes(wanted) ? 1 : 0));
}

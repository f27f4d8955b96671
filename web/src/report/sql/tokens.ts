// The words of a query.

/** What is wrong with a query, in words for whoever typed it. */
export class SqlError extends Error {}

export type TokenKind = "word" | "name" | "number" | "text" | "sign" | "end";
export interface Token {
  kind: TokenKind;
  /** Words in lower case; names and texts without their quotation marks. */
  text: string;
}

const TOKEN =
  /\s+|--[^\n]*|(\d+\.?\d*(?:e[+-]?\d+)?|\.\d+)|([a-z_]\w*)|'((?:[^']|'')*)'|"((?:[^"]|"")*)"|(<=|>=|<>|!=|\|\||[-+*/%=<>(),.;])/iy;

export function tokensOf(query: string): Token[] {
  const tokens: Token[] = [];
  TOKEN.lastIndex = 0;
  while (TOKEN.lastIndex < query.length) {
    const at = TOKEN.lastIndex;
    const match = TOKEN.exec(query);
    if (!match) throw new SqlError(unreadable(query.slice(at)));
    const [, number, word, text, name, sign] = match;
    if (number !== undefined) tokens.push({ kind: "number", text: number });
    else if (word !== undefined) tokens.push({ kind: "word", text: word });
    else if (text !== undefined) tokens.push({ kind: "text", text: text.replaceAll("''", "'") });
    else if (name !== undefined) tokens.push({ kind: "name", text: name.replaceAll('""', '"') });
    else if (sign !== undefined && sign !== ";") tokens.push({ kind: "sign", text: sign });
  }
  return [...tokens, { kind: "end", text: "the end" }];
}

function unreadable(rest: string): string {
  const start = rest.slice(0, 20);
  if (rest.startsWith("'") || rest.startsWith('"')) return `The quotation mark before ${start.slice(1)} is not closed.`;
  return `${start[0]} before ${start.slice(1)} is not part of SQL here.`;
}

// Colours of words: one pattern per language, whose named group is the class. Made for reading, not for parsing.

export type Token = [from: number, to: number, kind: string];

const MLIR =
  /(?<comment>\/\/.*)|(?<string>"[^"]*")|(?<value>%[\w$.-]+(?:#\d+)?)|(?<type>![\w.]+|#\w[\w.]*|\b(?:tensor|memdesc|i\d+|f\d+|bf16|f8\w+)\b)|(?<name>\b[a-z_]\w*\.[a-z_][\w.]*)|(?<number>\b\d[\d.e+-]*|\b0x[0-9A-F]+)/g;
const LLVM =
  /(?<comment>;.*)|(?<string>"[^"]*")|(?<value>[%][\w.]+)|(?<name>@[\w.$]+)|(?<type>\b(?:i\d+|float|half|bfloat|double|ptr|void|label)\b)|(?<number>\b-?\d[\d.e+-]*\b|0x[0-9A-F]+)/g;
const PTX =
  /(?<comment>\/\/.*)|(?<value>%[\w.]+)|(?<type>^\s*\.\w+)|(?<name>^\s*(?:@!?%\w+\s+)?[a-z][\w.:]*)|(?<label>^\$?\w+:)|(?<number>\b0[xfd][0-9A-Fa-f]+|\b\d+\b)/g;
const SASS =
  /(?<comment>\/\*[0-9a-f]+\*\/|\/\/.*)|(?<guard>@!?U?P\w+)|(?<value>\b(?:U?R\d+|U?RZ|U?P\d|U?PT|SR_\w+)\b)|(?<number>-?\b0x[0-9a-f]+|\b\d+\b)|(?<label>^\.\w+:|`\([^)]*\))|(?<name>\b[A-Z][A-Z0-9]*(?:\.[\w.]+)?)/g;
const AMD =
  /(?<comment>;.*)|(?<name>^\s+[a-z]+_\w+)|(?<type>^\s*\.\w+(?!\w*:))|(?<label>^\.?\w+:|\.LBB\w+)|(?<value>\b[vsa](?:\d+\b|\[\d+:\d+\])|\bvcc\w*\b|\bexec\w*\b)|(?<number>\b0x[0-9a-f]+|\b\d+\b)/g;
const PYTHON =
  /(?<comment>#.*)|(?<string>"""[\s\S]*?"""|'''[\s\S]*?'''|[rbf]{0,2}"(?:[^"\\\n]|\\.)*"|[rbf]{0,2}'(?:[^'\\\n]|\\.)*')|(?<word>\b(?:def|return|for|in|if|else|elif|while|and|or|not|is|None|True|False|import|from|as|with|pass|break|continue|lambda|assert|class|global|nonlocal|try|except|finally|raise|yield|del)\b)|(?<type>@[\w.]+)|(?<name>\b(?:tl|triton|libdevice)(?:\.\w+)+)|(?<number>\b\d[\w.]*)/g;
const CPP =
  /(?<comment>\/\/.*|\/\*[\s\S]*?\*\/)|(?<string>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')|(?<type>^\s*#\s*\w+|\b__\w+__\b)|(?<word>\b(?:asm|auto|bool|break|case|char|class|const|constexpr|continue|default|do|double|else|extern|float|for|if|inline|int|long|namespace|return|short|signed|sizeof|static|struct|switch|template|typename|union|unsigned|using|void|volatile|while)\b)|(?<name>\b(?:threadIdx|blockIdx|blockDim|gridDim)\.[xyz]|\b__\w+)|(?<number>\b\d[\w.]*)/gm;

const PATTERNS: Record<string, RegExp> = {
  ttir: MLIR,
  ttgir: MLIR,
  llir: LLVM,
  ptx: PTX,
  sass: SASS,
  amdgcn: AMD,
  python: PYTHON,
  cpp: CPP,
};

export function tokens(kind: string, text: string): Token[] {
  const pattern = PATTERNS[kind];
  const matches: Token[] = [];
  if (!pattern) return matches;
  for (const match of text.matchAll(pattern)) {
    for (const name in match.groups) {
      if (match.groups[name] === undefined) continue;
      matches.push([match.index, match.index + match[0].length, name]);
      break;
    }
  }
  return matches;
}

/** Tokens of lines that belong together, so that a text over several lines is one. */
export function tokensByLine(kind: string, lines: string[]): Token[][] {
  const byLine: Token[][] = lines.map(() => []);
  const starts: number[] = [];
  let total = 0;
  for (const line of lines) {
    starts.push(total);
    total += line.length + 1;
  }
  let line = 0;
  for (const [from, to, name] of tokens(kind, lines.join("\n"))) {
    while (line + 1 < lines.length && starts[line + 1] <= from) line++;
    for (let at = line; at < lines.length && starts[at] < to; at++) {
      byLine[at].push([Math.max(0, from - starts[at]), Math.min(lines[at].length, to - starts[at]), name]);
    }
  }
  return byLine;
}

/** Fills an element with a text: tokens in their colours, occurrences of `sought` (in lower case) marked. */
export function paint(element: HTMLElement, text: string, tokens: Token[], sought = ""): void {
  const parts = document.createDocumentFragment();
  const hits = sought ? occurrences(text.toLowerCase(), sought) : [];
  const add = (from: number, to: number, name: string): void => {
    for (const [start, end, isHit] of cut(from, to, hits)) {
      const piece = text.slice(start, end);
      if (!name && !isHit) parts.append(piece);
      else {
        const span = document.createElement(isHit ? "mark" : "span");
        if (name) span.className = `k-${name}`;
        span.textContent = piece;
        parts.append(span);
      }
    }
  };
  let at = 0;
  for (const [from, to, name] of tokens) {
    if (from > at) add(at, from, "");
    add(from, to, name);
    at = to;
  }
  if (at < text.length) add(at, text.length, "");
  element.replaceChildren(parts);
}

function occurrences(text: string, sought: string): [number, number][] {
  const ranges: [number, number][] = [];
  for (let at = text.indexOf(sought); at >= 0; at = text.indexOf(sought, at + sought.length)) ranges.push([at, at + sought.length]);
  return ranges;
}

function* cut(from: number, to: number, hits: [number, number][]): Generator<[number, number, boolean]> {
  let at = from;
  for (const [start, end] of hits) {
    if (end <= at || start >= to) continue;
    if (start > at) yield [at, start, false];
    yield [Math.max(start, at), Math.min(end, to), true];
    at = Math.min(end, to);
  }
  if (at < to) yield [at, to, false];
}

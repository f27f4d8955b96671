// What is written on a frame: as much of its name as fits.

const PYTHON_FRAME = /^[^<>]+\(\d+\): [^/]+$/;
const OP_NAME = /^\w+::\w+$/;
const FEWEST_LETTERS = 3;

/** The longest form of a name that fits, cut where none does; "" where there is no room for letters. */
export function fitting(name: string, letters: number): string {
  if (letters < FEWEST_LETTERS) return "";
  if (name.length <= letters) return name;
  const forms = shorterForms(name);
  const form = forms.find((candidate) => candidate.length <= letters) ?? forms[forms.length - 1] ?? name;
  return elide(form, letters);
}

/** A Python frame without its folders, then its function alone; an op without its namespace. */
function shorterForms(name: string): string[] {
  if (PYTHON_FRAME.test(name)) return [name.slice(name.lastIndexOf("/") + 1), name.slice(name.lastIndexOf("): ") + 3)];
  return OP_NAME.test(name) ? [name.slice(name.lastIndexOf("::") + 2)] : [];
}

/** Cut in the middle, where both ends can still be read; a few letters come from the start. */
export function elide(text: string, letters: number): string {
  if (text.length <= letters) return text;
  // A number at the end distinguishes siblings.
  const number = /\d*$/.exec(text)?.[0].length ?? 0;
  const tail = letters >= 8 ? Math.floor((letters - 1) / 2) : Math.min(number, letters - 2);
  return `${text.slice(0, letters - 1 - tail)}…${tail ? text.slice(-tail) : ""}`;
}

// Builds the page's script and style into the Python package; the same sources give the same bytes.
// `node build.mjs --check` only compares and fails where the committed files are not what the sources make.
import { build } from "esbuild";
import { mkdir, readFile, writeFile } from "node:fs/promises";

const OUT = new URL(process.env.WEB_OUT ?? "../src/", import.meta.url);
const common = {
  bundle: true,
  minify: true,
  write: false,
  target: ["chrome105", "firefox113", "safari16.4"],
  legalComments: "none",
  charset: "utf8",
  absWorkingDir: new URL(".", import.meta.url).pathname,
};

async function bundle(entry, extra = {}) {
  const result = await build({ ...common, entryPoints: [entry], ...extra });
  return result.outputFiles[0].text;
}

const licences = await readFile(new URL("LICENCES.txt", import.meta.url), "utf8");
const define = { LICENCES: JSON.stringify(licences) };
const script = await bundle("src/report/main.ts", { format: "iife", define });
const style = await bundle("src/report/style.css");
// A closing tag inside the script would end it early in the page.
const embeddable = (text) => text.replaceAll("</script", "<\\/script");
// The page of traced kernels is a bundle of its own.
const kernelScript = await bundle("src/kernel/main.ts", { format: "iife" });
const kernelStyle = await bundle("src/kernel/kernel.css");
// So is the page of compiled kernels.
const codeScript = await bundle("src/code/main.ts", { format: "iife" });
const codeStyle = await bundle("src/code/code.css");
// And that of layouts.
const layoutScript = await bundle("src/layout/main.ts", { format: "iife" });
const layoutStyle = await bundle("src/layout/layout.css");
const files = {
  "warplens/outputs/assets/page.js": embeddable(script),
  "warplens/outputs/assets/page.css": style,
  "warplens_lab/pages/assets/kernel.js": embeddable(kernelScript),
  "warplens_lab/pages/assets/kernel.css": kernelStyle,
  "warplens_lab/pages/assets/code.js": embeddable(codeScript),
  "warplens_lab/pages/assets/code.css": codeStyle,
  "warplens_lab/pages/assets/layout.js": embeddable(layoutScript),
  "warplens_lab/pages/assets/layout.css": layoutStyle,
};

let stale = false;
for (const [name, text] of Object.entries(files)) {
  const path = new URL(name, OUT);
  const before = await readFile(path, "utf8").catch(() => "");
  if (process.argv.includes("--check")) {
    if (before !== text) {
      stale = true;
      console.error(`${name} is not what web/src makes: run \`make web\` and commit it`);
    }
  } else {
    await mkdir(new URL(".", path), { recursive: true });
    await writeFile(path, text);
    console.log(`${name}: ${(text.length / 1000).toFixed(1)} kB`);
  }
}
process.exitCode = stale ? 1 : 0;

// The page's colours as the canvas needs them, read once per theme: asking the browser costs too much per frame.
import { cssColour } from "../../../shared/colours";

export interface PageColours {
  background: string;
  panel: string;
  text: string;
  quiet: string;
  line: string;
  accent: string;
  shade: string;
  path: string;
  warning: string;
}

export function pageColours(): PageColours {
  return {
    background: cssColour("--bg"),
    panel: cssColour("--panel"),
    text: cssColour("--text"),
    quiet: cssColour("--quiet"),
    line: cssColour("--line"),
    accent: cssColour("--accent"),
    shade: cssColour("--shade"),
    path: cssColour("--path"),
    warning: cssColour("--warn"),
  };
}

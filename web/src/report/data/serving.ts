// Whether the report is about a served model.
import type { App } from "../app";

export function hasServing(app: App): boolean {
  return app.hasTable("serving_phases") && app.wholeTable("serving_phases").rows > 0;
}

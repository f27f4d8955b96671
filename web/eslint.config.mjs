// What the type checker does not see. Layout is prettier's business alone; rules that need types would take three times
// as long.
import tseslint from "typescript-eslint";

const PAGES = ["report", "kernel", "code"];

/** A page imports itself and what is shared; what is shared imports no page. */
const arrows = ["shared", ...PAGES].map((room) => {
  const others = PAGES.filter((page) => page !== room);
  return {
    files: [`src/${room}/**/*.ts`],
    rules: {
      "no-restricted-imports": [
        "error",
        { patterns: [{ regex: `\\.\\./(${others.join("|")})/`, message: "pages share only web/src/shared" }] },
      ],
    },
  };
});

export default tseslint.config(
  { ignores: ["src/shared/generated"] },
  {
    files: ["src/**/*.ts", "tests/**/*.ts"],
    extends: [tseslint.configs.recommended],
    linterOptions: { reportUnusedDisableDirectives: "error" },
    rules: {
      eqeqeq: "error",
      "no-console": "error",
      "@typescript-eslint/explicit-function-return-type": ["error", { allowExpressions: true }],
    },
  },
  ...arrows,
);

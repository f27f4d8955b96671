// By what two steps are compared.

export const GROUPINGS = ["kernel", "op", "category", "module"] as const;
export type Grouping = (typeof GROUPINGS)[number];

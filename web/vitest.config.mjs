import { defineConfig } from "vitest/config";

const HANG_MS = 300_000; // no bar for a slow machine: only what never ends takes as long

export default defineConfig({ test: { include: ["tests/**/*.test.ts"], environment: "node", testTimeout: HANG_MS, hookTimeout: HANG_MS } });

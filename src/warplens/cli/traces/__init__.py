"""Verbs that open a profile: report, advise, show, tree, flamegraph, gantt, diff, sql, unique, what-if."""

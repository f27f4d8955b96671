// When every node of a step's graph is reached.
#pragma once

#include <cstddef>
#include <cstdint>

namespace warplens {

// Edges of a graph of `nodes` nodes, in the order of the nodes that they lead to: those to node n are first_edge[n] to
// first_edge[n + 1].
struct Edges {
    const int64_t* first_edge;
    const int64_t* source;
    size_t nodes;
};

// The times of all nodes in several variants at once: the latest of source + lag over a node's edges, plus its weight.
// All three are matrices with a column per variant. Nodes without an edge keep the time that they have. False, and
// nothing changed, where the edges are not as described.
bool simulate(const Edges& edges, const double* lag, const double* weight, size_t variants, double* times);

}  // namespace warplens

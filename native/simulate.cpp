#include "simulate.h"

#include <algorithm>

namespace warplens {

namespace {

bool is_sound(const Edges& edges) {
    if (edges.first_edge[0] != 0) return false;
    for (size_t node = 0; node < edges.nodes; ++node)
        if (edges.first_edge[node + 1] < edges.first_edge[node]) return false;
    const int64_t nodes = static_cast<int64_t>(edges.nodes);
    for (int64_t edge = 0; edge < edges.first_edge[edges.nodes]; ++edge)
        if (edges.source[edge] < 0 || edges.source[edge] >= nodes) return false;
    return true;
}

}  // namespace

bool simulate(const Edges& edges, const double* lag, const double* weight, size_t variants, double* times) {
    if (!is_sound(edges)) return false;
    for (size_t node = 0; node < edges.nodes; ++node) {
        const size_t begin = static_cast<size_t>(edges.first_edge[node]);
        const size_t end = static_cast<size_t>(edges.first_edge[node + 1]);
        if (begin == end) continue;
        for (size_t variant = 0; variant < variants; ++variant) {
            const auto arrival = [&](size_t edge) {
                return times[static_cast<size_t>(edges.source[edge]) * variants + variant] + lag[edge * variants + variant];
            };
            double latest = arrival(begin);
            for (size_t edge = begin + 1; edge < end; ++edge) latest = std::max(latest, arrival(edge));
            times[node * variants + variant] = latest + weight[node * variants + variant];
        }
    }
    return true;
}

}  // namespace warplens

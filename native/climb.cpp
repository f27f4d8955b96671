#include "climb.h"

#include <vector>

namespace warplens {

namespace {

constexpr int32_t kUnknown = -2;
constexpr int32_t kOnTheWay = -3;

}  // namespace

bool climb(const Forest& forest, const int64_t* rows, size_t count, int64_t* reached, uint8_t* crossed) {
    const int64_t size = static_cast<int64_t>(forest.rows);
    std::vector<int32_t> top(forest.rows, kUnknown);
    std::vector<uint8_t> crosses(forest.rows, 0);
    std::vector<int32_t> way;
    for (size_t each = 0; each < count; ++each) {
        int64_t at = rows[each];
        way.clear();
        for (; at >= 0 && at < size && top[at] == kUnknown; at = forest.forward[at] >= 0 ? forest.forward[at] : forest.parent[at]) {
            if (forest.stop[at]) {
                top[at] = static_cast<int32_t>(at);
                break;
            }
            top[at] = kOnTheWay;
            way.push_back(static_cast<int32_t>(at));
        }
        if (at >= size || (at >= 0 && top[at] == kOnTheWay)) return false;
        const int32_t found = at < 0 ? -1 : top[at];
        uint8_t is_crossed = at < 0 ? 0 : crosses[at];
        for (auto row = way.rbegin(); row != way.rend(); ++row) {
            is_crossed |= forest.forward[*row] >= 0;
            top[*row] = found;
            crosses[*row] = is_crossed;
        }
        reached[each] = found;
        crossed[each] = is_crossed;
    }
    return true;
}

}  // namespace warplens

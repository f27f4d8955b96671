#include "nest.h"

#include <algorithm>
#include <functional>
#include <vector>

namespace warplens {

bool nest(const int64_t* begin, const int64_t* finish, size_t count, int64_t* parent, int64_t* depth) {
    // A heap, not a stack: intervals that cross end in another order than they began, and still count while open.
    std::vector<int64_t> open;
    std::vector<int64_t> latest;  // by depth: the last interval there
    for (size_t row = 0; row < count; ++row) {
        if (finish[row] <= begin[row] || (row > 0 && begin[row] < begin[row - 1])) return false;
        while (!open.empty() && open.front() <= begin[row]) {
            std::pop_heap(open.begin(), open.end(), std::greater<>());
            open.pop_back();
        }
        const size_t level = open.size();
        if (latest.size() <= level) latest.resize(level + 1);
        latest[level] = static_cast<int64_t>(row);
        depth[row] = static_cast<int64_t>(level);
        parent[row] = level == 0 ? -1 : latest[level - 1];
        open.push_back(finish[row]);
        std::push_heap(open.begin(), open.end(), std::greater<>());
    }
    return true;
}

}  // namespace warplens

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

bool nest_in_turn(const int64_t* begin, const int64_t* finish, size_t count, int64_t* parent, int64_t* depth) {
    constexpr int64_t kMost = int64_t{1} << 61;  // so that twice a difference fits
    struct Open {
        int64_t finish;
        int64_t row;
    };
    std::vector<Open> open;
    for (size_t row = 0; row < count; ++row) {
        if (begin[row] < 0 || begin[row] >= kMost || finish[row] < 0 || finish[row] >= kMost) return false;
        const auto is_over = [&](const Open& last) {
            return last.finish <= begin[row] || (last.finish - begin[row]) * 2 < finish[row] - begin[row];
        };
        while (!open.empty() && is_over(open.back())) open.pop_back();
        parent[row] = open.empty() ? -1 : open.back().row;
        depth[row] = static_cast<int64_t>(open.size());
        const int64_t end = open.empty() ? finish[row] : std::min(finish[row], open.back().finish);
        open.push_back({end, static_cast<int64_t>(row)});
    }
    return true;
}

}  // namespace warplens

#include "nest.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <vector>

namespace warplens {

namespace {

// The ends of the intervals that are open, of which the first to come is taken out. Nearly always an interval ends before
// those around it, so that the ends are a stack. Where one has to be put far below the top, they become a heap, and stay
// one: a file of crossing intervals takes no more than that.
class OpenEnds {
  public:
    size_t size() const { return ends_.size(); }

    void close_until(int64_t moment) {
        while (!ends_.empty() && (is_heap_ ? ends_.front() : ends_.back()) <= moment) {
            if (is_heap_) std::pop_heap(ends_.begin(), ends_.end(), std::greater<>());
            ends_.pop_back();
        }
    }

    void add(int64_t end) {
        if (!is_heap_) {
            const size_t most = std::min(ends_.size(), kMostAbove);
            size_t above = 0;
            while (above < most && *(ends_.end() - 1 - static_cast<ptrdiff_t>(above)) < end) ++above;
            if (above < kMostAbove) {
                ends_.insert(ends_.end() - static_cast<ptrdiff_t>(above), end);
                return;
            }
            std::reverse(ends_.begin(), ends_.end());  // in order from the first to the last, which is a heap
            is_heap_ = true;
        }
        ends_.push_back(end);
        std::push_heap(ends_.begin(), ends_.end(), std::greater<>());
    }

  private:
    static constexpr size_t kMostAbove = 32;
    std::vector<int64_t> ends_;
    bool is_heap_ = false;
};

}  // namespace

bool nest(const int64_t* begin, const int64_t* finish, size_t count, int64_t* parent, int64_t* depth) {
    OpenEnds open;
    std::vector<int64_t> latest;  // by depth: the last interval there
    for (size_t row = 0; row < count; ++row) {
        if (finish[row] <= begin[row] || (row > 0 && begin[row] < begin[row - 1])) return false;
        open.close_until(begin[row]);
        const size_t level = open.size();
        if (latest.size() <= level) latest.resize(level + 1);
        latest[level] = static_cast<int64_t>(row);
        depth[row] = static_cast<int64_t>(level);
        parent[row] = level == 0 ? -1 : latest[level - 1];
        open.add(finish[row]);
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

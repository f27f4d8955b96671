#include "nest.h"

#include <algorithm>
#include <functional>
#include <tuple>
#include <utility>

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

constexpr int kMostRounds = 8;  // as in nest_in_python.py
constexpr int64_t kMost = int64_t{1} << 60;  // so that four times a difference fits

// Those that are equal stay as they are.
bool comes_before(const Interval& one, const Interval& other) {
    return std::tie(one.begin, other.finish, one.place) < std::tie(other.begin, one.finish, other.place);
}

// The innermost interval that began before the moment and is still open then.
int64_t innermost_open(const std::vector<Interval>& intervals, const std::vector<int64_t>& parent, int64_t moment) {
    const auto behind = std::lower_bound(intervals.begin(), intervals.end(), moment,
                                         [](const Interval& each, int64_t time) { return each.begin < time; });
    int64_t at = behind - intervals.begin() - 1;
    while (at >= 0 && intervals[static_cast<size_t>(at)].finish <= moment) at = parent[static_cast<size_t>(at)];
    return at;
}

// An annotation shrunk to whole calls: past those it opened in, short of those it closed in.
Interval fitted(const Interval& annotation, const std::vector<Interval>& calls, const std::vector<int64_t>& parent) {
    Interval fit = annotation;
    for (int64_t at = innermost_open(calls, parent, annotation.begin); at >= 0; at = parent[static_cast<size_t>(at)]) {
        const Interval& call = calls[static_cast<size_t>(at)];
        if (call.finish >= annotation.finish) break;
        fit.begin = call.finish;
    }
    for (int64_t at = innermost_open(calls, parent, annotation.finish); at >= 0; at = parent[static_cast<size_t>(at)]) {
        const Interval& call = calls[static_cast<size_t>(at)];
        if (call.begin <= fit.begin) break;
        if (call.finish > annotation.finish) fit.finish = call.begin;
    }
    fit.finish = std::max(fit.finish, fit.begin + 1);
    return fit;
}

// Intervals in order, of which some are changed: whole runs of the others are moved, in memory that is kept.
class Ordered {
  public:
    explicit Ordered(std::vector<Interval> intervals) : intervals_(std::move(intervals)) {}

    const std::vector<Interval>& intervals() const { return intervals_; }

    // Puts changed intervals, which come in the order of their places, where they belong now.
    void change(std::vector<Interval>& changed) {
        if (changed.empty()) return;
        const Interval least = *std::min_element(changed.begin(), changed.end(), comes_before);
        const auto above = std::lower_bound(begin(), intervals_.end(), least, comes_before);
        const size_t first = std::min(size_t{changed.front().place}, static_cast<size_t>(above - begin()));
        others_.clear();
        others_.reserve(intervals_.size());
        size_t from = first;
        for (const Interval& each : changed) {
            others_.insert(others_.end(), begin() + offset(from), begin() + each.place);
            from = size_t{each.place} + 1;
        }
        others_.insert(others_.end(), begin() + offset(from), intervals_.end());
        std::sort(changed.begin(), changed.end(), comes_before);
        intervals_.resize(first);
        auto next = others_.begin();
        for (const Interval& each : changed) {
            const auto behind = std::lower_bound(next, others_.end(), each, comes_before);
            intervals_.insert(intervals_.end(), next, behind);
            intervals_.push_back(each);
            next = behind;
        }
        intervals_.insert(intervals_.end(), next, others_.end());
        for (size_t at = first; at < intervals_.size(); ++at) intervals_[at].place = static_cast<uint32_t>(at);
    }

  private:
    std::vector<Interval>::iterator begin() { return intervals_.begin(); }
    static ptrdiff_t offset(size_t place) { return static_cast<ptrdiff_t>(place); }

    std::vector<Interval> intervals_, others_;
};

bool fit_annotations(Ordered& events, const uint8_t* soft) {
    std::vector<Interval> calls, annotations;
    for (const Interval& each : events.intervals()) (soft[each.row] ? annotations : calls).push_back(each);
    if (annotations.empty() || calls.empty()) return true;
    std::vector<int64_t> parent(calls.size()), depth(calls.size());
    if (!nest(calls, parent, depth)) return false;
    for (Interval& each : annotations) each = fitted(each, calls, parent);
    events.change(annotations);
    return true;
}

// Intervals that cross the ends of their callers, shortened to those, or begun there where most of them is beyond.
// Whether any outlives its caller at all: one whose caller is over when it begins is only the echo of a crossing further up.
bool find_crossings(const std::vector<Interval>& intervals, const std::vector<int64_t>& parent,
                    std::vector<Interval>& mended, LaneNesting& found) {
    mended.clear();
    bool is_outlived = false;
    for (size_t at = 0; at < intervals.size(); ++at) {
        if (parent[at] < 0) continue;
        const int64_t limit = intervals[static_cast<size_t>(parent[at])].finish;
        Interval each = intervals[at];
        if (each.finish <= limit) continue;
        is_outlived = true;
        if (each.begin >= limit) continue;
        found.improper += 1;
        found.worst = std::max(found.worst, (each.finish - limit) / 2);
        const bool is_inside = (limit - each.begin) * 2 >= each.finish - each.begin;
        (is_inside ? each.finish : each.begin) = limit;
        mended.push_back(each);
    }
    return is_outlived;
}

// The intervals with their times doubled, so that an empty event can be given half a nanosecond and nest like any other.
// None where they are not in order, or out of range.
std::vector<Interval> doubled(const int64_t* start, const int64_t* end, size_t count) {
    std::vector<Interval> intervals;
    intervals.reserve(count);
    for (size_t row = 0; row < count; ++row) {
        if (start[row] <= -kMost || start[row] >= kMost || end[row] <= -kMost || end[row] >= kMost) return {};
        if (row > 0 && std::tie(start[row - 1], end[row]) > std::tie(start[row], end[row - 1])) return {};
        const uint32_t number = static_cast<uint32_t>(row);
        intervals.push_back({2 * start[row], std::max(2 * end[row], 2 * start[row] + 1), number, number});
    }
    return intervals;
}

}  // namespace

bool nest(const std::vector<Interval>& intervals, std::vector<int64_t>& parent, std::vector<int64_t>& depth) {
    OpenEnds open;
    std::vector<int64_t> latest;  // by depth: the last interval there
    int64_t last_begin = intervals.empty() ? 0 : intervals.front().begin;
    for (size_t at = 0; at < intervals.size(); ++at) {
        const int64_t begin = intervals[at].begin, finish = intervals[at].finish;
        if (finish <= begin || begin < last_begin) return false;
        last_begin = begin;
        open.close_until(begin);
        const size_t level = open.size();
        if (latest.size() <= level) latest.resize(level + 1);
        latest[level] = static_cast<int64_t>(at);
        depth[at] = static_cast<int64_t>(level);
        parent[at] = level == 0 ? -1 : latest[level - 1];
        open.add(finish);
    }
    return true;
}

void nest_in_turn(const int64_t* start, const int64_t* end, size_t count, int64_t* parent, int64_t* depth) {
    struct Open {
        int64_t end;
        int64_t row;
    };
    std::vector<Open> open;
    for (size_t row = 0; row < count; ++row) {
        const auto is_over = [&](const Open& last) {
            return last.end <= start[row] || (last.end - start[row]) * 2 < end[row] - start[row];
        };
        while (!open.empty() && is_over(open.back())) open.pop_back();
        parent[row] = open.empty() ? -1 : open.back().row;
        depth[row] = static_cast<int64_t>(open.size());
        open.push_back({open.empty() ? end[row] : std::min(end[row], open.back().end), static_cast<int64_t>(row)});
    }
}

bool nest_lane(const int64_t* start, const int64_t* end, const uint8_t* soft, size_t count, LaneNesting& found) {
    if (count > UINT32_MAX) return false;
    Ordered events(doubled(start, end, count));
    const std::vector<Interval>& intervals = events.intervals();
    if (intervals.size() != count || !fit_annotations(events, soft)) return false;
    std::vector<int64_t> parent(count), depth(count);
    std::vector<Interval> mended;
    found.improper = found.worst = 0;
    for (int round = 0; round < kMostRounds; ++round) {
        if (!nest(intervals, parent, depth)) return false;
        if (find_crossings(intervals, parent, mended, found)) {
            events.change(mended);
            continue;
        }
        for (size_t at = 0; at < count; ++at) {
            const size_t row = intervals[at].row;
            found.parent[row] = parent[at] < 0 ? -1 : int64_t{intervals[static_cast<size_t>(parent[at])].row};
            found.depth[row] = depth[at];
        }
        return true;
    }
    nest_in_turn(start, end, count, found.parent, found.depth);
    found.improper = std::max(found.improper, int64_t{1});
    return true;
}

}  // namespace warplens

#include "sequences.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>

namespace warplens {

namespace {

using Places = std::vector<int32_t>;
constexpr int32_t kNone = -1;

// Sequences of one length that occur often enough: where they begin, one sequence after the other and each in order,
// the bounds of each in that list, and for every event the number of the sequence that begins there.
struct Repeats {
    Places positions;
    Places bounds{0};
    Places numbers;
};

struct Sequence {
    Places starts;
    int64_t length;
    int64_t time_ns;
};

// By one key, in one pass over its values; equal keys stay in order.
template <typename Key>
Places sorted_by(const Places& places, size_t keys, Key key) {
    std::vector<size_t> next(keys + 1, 0);
    for (const int32_t place : places) ++next[static_cast<size_t>(key(place)) + 1];
    std::partial_sum(next.begin(), next.end(), next.begin());
    Places sorted(places.size());
    for (const int32_t place : places) sorted[next[static_cast<size_t>(key(place))]++] = place;
    return sorted;
}

class Search {
public:
    Search(const int64_t* code, const int64_t* sums_ns, size_t count, const SequenceLimits& limits)
        : code_(code), sums_ns_(sums_ns), count_(count), limits_(limits) {}

    void run(Sequences& found) {
        find_powers();
        for (size_t index = 0; index < limits_.length_count; ++index) {
            const int64_t length = limits_.lengths[index];
            size_t power = 0;
            while (int64_t{2} << power <= length) ++power;
            if (power >= powers_.size()) break;
            const int64_t size = int64_t{1} << power;
            if (size == length) {
                try_most(powers_[power], length);
                continue;
            }
            const Repeats repeats = pairs(powers_[power], length - size);
            if (repeats.positions.empty()) break;
            try_most(repeats, length);
        }
        std::sort(candidates_.begin(), candidates_.end(), [](const Sequence& left, const Sequence& right) {
            return std::make_tuple(right.time_ns, left.length, left.starts[0]) <
                   std::make_tuple(left.time_ns, right.length, right.starts[0]);
        });
        keep_distinct(found);
    }

private:
    // The sequences of one event, of two, of four and so on, as far as there are any.
    void find_powers() {
        Places all(count_);
        std::iota(all.begin(), all.end(), 0);
        const Places order = sorted_by(all, count_, [this](int32_t at) { return code_[at]; });
        Repeats power = often(order, [this](int32_t left, int32_t right) { return code_[left] == code_[right]; });
        const int64_t longest = limits_.lengths[limits_.length_count - 1];
        for (int64_t size = 1; size <= longest && !power.positions.empty(); size *= 2) {
            powers_.push_back(std::move(power));
            power = pairs(powers_.back(), size);
        }
    }

    // What begins with one of these sequences and goes on with one so much later.
    Repeats pairs(const Repeats& parts, int64_t distance) const {
        const int32_t apart = static_cast<int32_t>(distance);
        Places at;
        at.reserve(parts.positions.size());
        for (const int32_t position : parts.positions) {
            if (position >= apart && parts.numbers[position - apart] >= 0) at.push_back(position - apart);
        }
        // By the second part they are in order; a stable sort by the first keeps that.
        at = sorted_by(at, parts.bounds.size(), [&](int32_t place) { return parts.numbers[place]; });
        return often(at, [&](int32_t left, int32_t right) {
            return parts.numbers[left] == parts.numbers[right] &&
                   parts.numbers[left + apart] == parts.numbers[right + apart];
        });
    }

    // Those that are often enough, of places in groups.
    template <typename Alike>
    Repeats often(const Places& places, Alike alike) const {
        Repeats repeats;
        repeats.numbers.assign(count_, kNone);
        size_t end = 0;
        for (size_t begin = 0; begin < places.size(); begin = end) {
            for (end = begin + 1; end < places.size() && alike(places[begin], places[end]);) ++end;
            if (end - begin < limits_.min_count) continue;
            const int32_t number = static_cast<int32_t>(repeats.bounds.size()) - 1;
            for (size_t each = begin; each < end; ++each) repeats.numbers[places[each]] = number;
            repeats.positions.insert(repeats.positions.end(), places.begin() + begin, places.begin() + end);
            repeats.bounds.push_back(static_cast<int32_t>(repeats.positions.size()));
        }
        return repeats;
    }

    // Sums wrap around, as numpy's do.
    int64_t time_of(const int32_t* begin, const int32_t* end, int64_t length) const {
        uint64_t time = 0;
        for (; begin != end; ++begin) {
            time += static_cast<uint64_t>(sums_ns_[*begin + length]) - static_cast<uint64_t>(sums_ns_[*begin]);
        }
        return static_cast<int64_t>(time);
    }

    // Of one length, those with most time are made as long as they can be.
    void try_most(const Repeats& repeats, int64_t length) {
        const size_t groups = repeats.bounds.size() - 1;
        std::vector<std::pair<uint64_t, size_t>> by_time(groups);
        for (size_t group = 0; group < groups; ++group) {
            const int32_t* first = repeats.positions.data();
            const int64_t time = time_of(first + repeats.bounds[group], first + repeats.bounds[group + 1], length);
            // Most time first, as numpy orders negated times.
            by_time[group] = {(uint64_t{0} - static_cast<uint64_t>(time)) ^ (uint64_t{1} << 63), group};
        }
        const size_t tried = std::min(groups, limits_.tried);
        std::partial_sort(by_time.begin(), by_time.begin() + tried, by_time.end());
        for (size_t index = 0; index < tried; ++index) {
            const size_t group = by_time[index].second;
            try_one(places_apart(repeats, group, length), length);
        }
    }

    // Occurrences that do not overlap, from the first on.
    static Places places_apart(const Repeats& repeats, size_t group, int64_t length) {
        Places apart;
        for (int32_t at = repeats.bounds[group]; at < repeats.bounds[group + 1]; ++at) {
            const int32_t place = repeats.positions[at];
            if (apart.empty() || place - apart.back() >= length) apart.push_back(place);
        }
        return apart;
    }

    void try_one(Places starts, int64_t length) {
        // A shorter one with these occurrences was made as long as it can be.
        if (starts.size() < limits_.min_count || !seen_.insert(starts).second) return;
        int64_t room = static_cast<int64_t>(limits_.max_length);
        for (size_t at = 1; at < starts.size(); ++at) room = std::min<int64_t>(room, starts[at] - starts[at - 1]);
        length += in_common_after(starts, length, std::min(room, static_cast<int64_t>(count_) - starts.back()));
        const int64_t before = in_common_before(starts, std::min<int64_t>(room - length, starts[0]));
        for (int32_t& start : starts) start -= static_cast<int32_t>(before);
        length += before;
        if (has_period(starts[0], length) || !extents_.insert({starts[0], length}).second) return;
        const int64_t time_ns = time_of(starts.data(), starts.data() + starts.size(), length);
        candidates_.push_back({std::move(starts), length, time_ns});
    }

    // How many events all these places have in common behind their first `length` ones, up to `most` with them.
    int64_t in_common_after(const Places& starts, int64_t length, int64_t most) const {
        int64_t reached = length;
        for (size_t power = powers_.size(); power-- > 0;) {
            const int64_t size = int64_t{1} << power;
            while (reached + size <= most && have_one_number(powers_[power], starts, reached)) reached += size;
        }
        return reached - length;
    }

    int64_t in_common_before(const Places& starts, int64_t most) const {
        int64_t reached = 0;
        for (size_t power = powers_.size(); power-- > 0;) {
            const int64_t size = int64_t{1} << power;
            while (reached + size <= most && have_one_number(powers_[power], starts, -reached - size)) reached += size;
        }
        return reached;
    }

    // As often as these places are, what they have in common has a number.
    static bool have_one_number(const Repeats& repeats, const Places& starts, int64_t offset) {
        const auto number_at = [&](int32_t start) { return repeats.numbers[static_cast<size_t>(start + offset)]; };
        const int32_t number = number_at(starts[0]);
        return number >= 0 &&
               std::all_of(starts.begin(), starts.end(), [&](int32_t start) { return number_at(start) == number; });
    }

    // Whether the sequence is a shorter one twice or more often: that one is found by itself. Two equal events in a row
    // are a sequence; more of them are that one again.
    bool has_period(int64_t start, int64_t length) const {
        if (length <= 2) return false;
        const int64_t* codes = code_ + start;
        // For each prefix, how long its longest end is that also begins it.
        Places border(static_cast<size_t>(length), 0);
        int32_t matched = 0;
        for (size_t at = 1; at < border.size(); ++at) {
            while (matched > 0 && codes[at] != codes[matched]) matched = border[static_cast<size_t>(matched) - 1];
            if (codes[at] == codes[matched]) ++matched;
            border[at] = matched;
        }
        return length - border.back() <= length / 2;
    }

    // Without those that describe the time of one with more of it.
    void keep_distinct(Sequences& found) const {
        std::vector<std::pair<size_t, std::vector<uint8_t>>> covers;
        for (const Sequence& sequence : candidates_) {
            if (covers.size() == limits_.max_found) break;
            const bool is_known = std::any_of(covers.begin(), covers.end(), [&](const auto& cover) {
                return occurs_as_often(sequence.starts.size(), cover.first) && covered(sequence, cover.second);
            });
            if (is_known) continue;
            std::vector<uint8_t> cover(count_, 0);
            for (const int32_t start : sequence.starts) std::fill_n(cover.begin() + start, sequence.length, uint8_t{1});
            covers.emplace_back(sequence.starts.size(), std::move(cover));
            found.starts.insert(found.starts.end(), sequence.starts.begin(), sequence.starts.end());
            found.bounds.push_back(static_cast<int64_t>(found.starts.size()));
            found.lengths.push_back(sequence.length);
            found.times_ns.push_back(sequence.time_ns);
        }
    }

    bool occurs_as_often(size_t count, size_t other) const {
        const double times = static_cast<double>(count), of_other = static_cast<double>(other);
        return of_other * limits_.same <= times && times <= of_other / limits_.same;
    }

    bool covered(const Sequence& sequence, const std::vector<uint8_t>& cover) const {
        int64_t inside = 0;
        for (const int32_t start : sequence.starts) {
            inside += std::accumulate(cover.begin() + start, cover.begin() + start + sequence.length, int64_t{0});
        }
        const int64_t events = static_cast<int64_t>(sequence.starts.size()) * sequence.length;
        return static_cast<double>(inside) / static_cast<double>(events) > limits_.same;
    }

    const int64_t* code_;
    const int64_t* sums_ns_;
    size_t count_;
    const SequenceLimits& limits_;
    std::vector<Repeats> powers_;
    std::set<Places> seen_;
    std::set<std::pair<int32_t, int64_t>> extents_;
    std::vector<Sequence> candidates_;
};

bool is_sound(const int64_t* code, size_t count, const SequenceLimits& limits) {
    const int64_t most = std::numeric_limits<int32_t>::max() / 2;
    if (count > static_cast<size_t>(most) || limits.length_count == 0 || limits.min_count < 2) return false;
    for (size_t index = 0; index < limits.length_count; ++index) {
        const int64_t shorter = index ? limits.lengths[index - 1] : 0;
        if (limits.lengths[index] <= shorter || limits.lengths[index] > most) return false;
    }
    return std::all_of(code, code + count, [count](int64_t each) { return each >= 0 && each < static_cast<int64_t>(count); });
}

}  // namespace

bool find_sequences(const int64_t* code, const int64_t* sums_ns, size_t count, const SequenceLimits& limits,
                    Sequences& found) {
    if (!is_sound(code, count, limits)) return false;
    Search(code, sums_ns, count, limits).run(found);
    return true;
}

}  // namespace warplens

// Events that follow each other again and again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace warplens {

// How far the search goes; analyses/work/sequence_search.py says what each of them is for.
struct SequenceLimits {
    const int64_t* lengths;
    size_t length_count;
    size_t tried;
    size_t min_count;
    size_t max_length;
    size_t max_found;
    double same;
};

// The sequences that were found, those with most time first: where each begins (starts[bounds[n]] to
// starts[bounds[n + 1]]), how many events it has, and their time.
struct Sequences {
    std::vector<int64_t> starts;
    std::vector<int64_t> bounds{0};
    std::vector<int64_t> lengths;
    std::vector<int64_t> times_ns;
};

// `code` has a number below `count` for each event, `sums_ns` the durations of all events before each and of all.
// False where they, or the limits, are not so.
bool find_sequences(const int64_t* code, const int64_t* sums_ns, size_t count, const SequenceLimits& limits,
                    Sequences& found);

}  // namespace warplens

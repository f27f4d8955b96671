// One input through the native reader: whole, and again in chunks. Both must agree to the byte, or both hand over. And
// its first bytes as intervals through the nesting, as a forest, as a graph and as events in which sequences are looked for.
//
// The entry point is libFuzzer's, so any engine that knows it can drive this: clang's own (-fsanitize=fuzzer), AFL++'s,
// or driver.cpp, which needs only g++. The first byte of the input chooses the size of the chunks.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "../../native/nest.h"
#include "../../native/warplens_native.h"

namespace {

// The parts are those that native.py gives: all of them, so that every path is open.
const wl_category kCategories[] = {
    {"cpu_op", 2, 0x147},   {"user_annotation", 3, 0x147}, {"cuda_runtime", 4, 0x009}, {"kernel", 5, 0x1b9},
    {"gpu_memcpy", 6, 0x1b9}, {"cuda_sync", 9, 0x138},       {"", 13, 0},
};
constexpr uint64_t kPieceBytes = 600;

wl_reader* read(const uint8_t* text, size_t size, size_t chunk, wl_state* state) {
    wl_reader* reader =
        wl_new(kCategories, sizeof kCategories / sizeof *kCategories, "warplens.", kPieceBytes, 0x5eed);
    for (size_t at = 0; at < size; at += chunk) {
        // A copy of its own, so that reading beyond a chunk is noticed.
        const size_t count = size - at < chunk ? size - at : chunk;
        uint8_t* copy = static_cast<uint8_t*>(std::malloc(count));
        std::memcpy(copy, text + at, count);
        *state = wl_feed(reader, copy, count);
        std::free(copy);
        if (*state == WL_HANDED_OVER) break;
    }
    *state = wl_finish(reader);
    return reader;
}

void fail(const char* what) {
    std::fprintf(stderr, "not as it must be: %s\n", what);
    std::abort();
}

void compare(const wl_reader* first, const wl_reader* second) {
    wl_array one, other;
    for (size_t number = 0; wl_get(first, number, &one); ++number) {
        if (!wl_get(second, number, &other) || one.bytes != other.bytes) fail(one.name);
        if (one.bytes > 0 && std::memcmp(one.data, other.data, one.bytes) != 0) fail(one.name);
    }
}

// Every parent is another row, one level up.
void check_forest(const int64_t* parent, const int64_t* depth, size_t count) {
    for (size_t row = 0; row < count; ++row) {
        if (parent[row] >= static_cast<int64_t>(count)) fail("a parent");
        if (depth[row] != (parent[row] < 0 ? 0 : depth[parent[row]] + 1)) fail("a depth");
    }
}

// The first bytes as intervals, sorted or not, with annotations among them: of those that nest, depths are counted one by
// one.
void check_nesting(const uint8_t* data, size_t size) {
    constexpr size_t kMost = 48;
    const size_t count = size / 2 < kMost ? size / 2 : kMost;
    int64_t start[kMost], end[kMost], parent[kMost], depth[kMost], crossings[2];
    uint8_t soft[kMost];
    std::vector<warplens::Interval> intervals;
    for (size_t row = 0; row < count; ++row) {
        start[row] = (row > 0 ? start[row - 1] : 0) + data[2 * row] % 16 - (data[2 * row] == 255);
        end[row] = start[row] + data[2 * row + 1] % 64;
        soft[row] = data[2 * row + 1] >= 192;
        intervals.push_back({start[row], end[row], static_cast<uint32_t>(row), static_cast<uint32_t>(row)});
    }
    warplens::nest_in_turn(start, end, count, parent, depth);
    check_forest(parent, depth, count);
    if (wl_nest(start, end, soft, count, parent, depth, crossings)) {
        check_forest(parent, depth, count);
        if (crossings[0] < 0 || crossings[1] < 0 || (crossings[0] == 0 && crossings[1] > 0)) fail("crossings");
    }
    std::vector<int64_t> parents(count), depths(count);
    if (!warplens::nest(intervals, parents, depths)) return;
    for (size_t row = 0; row < count; ++row) {
        int64_t open = 0, caller = -1;
        for (size_t before = 0; before < row; ++before) open += end[before] > start[row];
        for (size_t before = 0; before < row; ++before) {
            if (depths[before] == open - 1) caller = static_cast<int64_t>(before);
        }
        if (depths[row] != open || parents[row] != caller) fail("nesting");
    }
}

// The first bytes as a forest, and as links that may lead anywhere: every walk ends where a walk step by step does.
void check_climbing(const uint8_t* data, size_t size) {
    constexpr size_t kMost = 32;
    const size_t rows = size / 3 < kMost ? size / 3 : kMost;
    int32_t parent[kMost], forward[kMost];
    uint8_t stop[kMost], crossed[kMost];
    int64_t from[kMost], reached[kMost];
    for (size_t row = 0; row < rows; ++row) {
        parent[row] = data[3 * row] % (kMost + 2) - 1;
        forward[row] = data[3 * row + 1] % 4 == 0 ? data[3 * row + 1] % (kMost + 2) - 1 : -1;
        stop[row] = data[3 * row + 2] % 4 == 0;
        from[row] = data[3 * row + 2] % (kMost + 2) - 1;
    }
    if (!wl_climb(parent, forward, stop, rows, from, rows, reached, crossed)) return;
    for (size_t each = 0; each < rows; ++each) {
        int64_t at = from[each];
        bool is_crossed = false;
        for (size_t level = 0; at >= 0 && !stop[at]; ++level) {
            if (level > rows) fail("a circle");
            is_crossed |= forward[at] >= 0;
            at = forward[at] >= 0 ? forward[at] : parent[at];
        }
        if (reached[each] != at || crossed[each] != is_crossed) fail("climbing");
    }
}

// The bytes as names, with many digits among them: what is written fits, and has no long number left.
void check_families(const uint8_t* data, size_t size) {
    constexpr size_t kMost = 256, kInWord = 5;
    char text[kMost], out[kMost];
    const size_t count = size < kMost ? size : kMost;
    for (size_t at = 0; at < count; ++at) text[at] = data[at] % 3 ? static_cast<char>('0' + data[at] % 10) : data[at] & 0x7f;
    const size_t written = wl_without_numbers(text, count, out);
    if (written > count) fail("families");
    size_t digits = 0;
    for (size_t at = 0; at < written; ++at) {
        digits = out[at] >= '0' && out[at] <= '9' ? digits + 1 : 0;
        if (digits > kInWord) fail("a long number");
    }
}

// The first bytes as a graph: sources before and after, edges out of order now and then.
void check_simulation(const uint8_t* data, size_t size) {
    constexpr size_t kMost = 16, kVariants = 2;
    const size_t nodes = size / 3 < kMost ? size / 3 : kMost;
    int64_t first_edge[kMost + 1] = {0}, source[kMost * 4];
    double lag[kMost * 4 * kVariants], weight[kMost * kVariants], times[kMost * kVariants];
    for (size_t node = 0; node < nodes; ++node) {
        first_edge[node + 1] = first_edge[node] + data[3 * node] % 4 - (data[3 * node] == 255 && first_edge[node] > 0);
        for (size_t edge = 0; edge < 4; ++edge) source[4 * node + edge] = data[3 * node + 1] % (kMost + 2) - 1;
        weight[2 * node] = weight[2 * node + 1] = data[3 * node + 2];
        times[2 * node] = times[2 * node + 1] = 0;
    }
    for (size_t at = 0; at < nodes * 4 * kVariants; ++at) lag[at] = data[at % size];
    if (!wl_simulate(first_edge, source, nodes, lag, weight, kVariants, times)) return;
    for (size_t node = 0; node < nodes; ++node) {
        if (!(times[2 * node] >= 0)) fail("a time");
    }
}

// The first bytes as events: every place of a sequence has its events, and none of them overlap.
void check_sequences(const uint8_t* data, size_t size) {
    constexpr size_t kMost = 256;
    const int64_t lengths[] = {2, 3, 4, 6, 8, 12};
    const wl_sequence_limits limits = {lengths, sizeof lengths / sizeof *lengths, 4, 3, 64, 8, 0.75};
    const size_t count = size < kMost ? size : kMost;
    int64_t code[kMost], sums[kMost + 1] = {0};
    for (size_t at = 0; at < count; ++at) {
        code[at] = data[at] % 5 + (data[at] == 255 ? 252 : 0);
        sums[at + 1] = sums[at] + data[at];
    }
    wl_sequences* found = wl_sequences_new(code, sums, count, &limits);
    if (!found) return;
    wl_array arrays[4];
    for (size_t number = 0; number < 4; ++number) wl_sequences_get(found, number, &arrays[number]);
    const auto values = [&](size_t number) { return static_cast<const int64_t*>(arrays[number].data); };
    for (size_t each = 0; each < arrays[2].bytes / sizeof(int64_t); ++each) {
        const int64_t first = values(0)[values(1)[each]], length = values(2)[each];
        for (int64_t at = values(1)[each]; at < values(1)[each + 1]; ++at) {
            const int64_t start = values(0)[at];
            if (start < 0 || start + length > static_cast<int64_t>(count)) fail("the place of a sequence");
            if (start > first && start < values(0)[at - 1] + length) fail("sequences apart");
            if (std::memcmp(code + first, code + start, static_cast<size_t>(length) * sizeof *code)) fail("a sequence");
        }
    }
    wl_sequences_free(found);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    if (size < 2) return 0;
    check_nesting(data, size);
    check_climbing(data, size);
    check_families(data, size);
    check_simulation(data, size);
    check_sequences(data, size);
    const size_t chunk = data[0] < 128 ? data[0] + size_t{1} : size_t{data[0]} * 16;
    wl_state whole_state = WL_READING, chunks_state = WL_READING;
    wl_reader* whole = read(data + 1, size - 1, size - 1, &whole_state);
    wl_reader* chunks = read(data + 1, size - 1, chunk, &chunks_state);
    if (whole_state != chunks_state) fail("the state");
    if (whole_state == WL_CLOSED) compare(whole, chunks);
    uint64_t at = 0;
    if (std::strlen(wl_why(whole, &at)) > 100 || at > size) fail("the reason");
    wl_free(whole);
    wl_free(chunks);
    return 0;
}

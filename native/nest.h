// Which interval runs inside which.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace warplens {

struct Interval {
    int64_t begin, finish;
    uint32_t row;    // in the input
    uint32_t place;  // among the others now
};

// Parents (-1 for none) and depths of intervals, sorted by begin and none of them empty; false where they are not so. An
// interval's depth is how many earlier ones are still open, its parent the last before it one level up.
bool nest(const std::vector<Interval>& intervals, std::vector<int64_t>& parent, std::vector<int64_t>& depth);

// The same event by event, for intervals so tangled that mending does not settle: one that outlives the last open
// interval by more than half of itself ends it, and otherwise ends with it.
void nest_in_turn(const int64_t* start, const int64_t* end, size_t count, int64_t* parent, int64_t* depth);

struct LaneNesting {
    int64_t *parent, *depth;  // per event
    int64_t improper, worst;  // how many events crossed the end of another, and by how much at most
};

// The events of a thread, sorted by start, outermost first; soft ones give way (see nest.py). False where they are not
// sorted so, or out of range.
bool nest_lane(const int64_t* start, const int64_t* end, const uint8_t* soft, size_t count, LaneNesting& found);

}  // namespace warplens

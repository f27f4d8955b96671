// Which interval runs inside which.
#pragma once

#include <cstddef>
#include <cstdint>

namespace warplens {

// Parents (-1 for none) and depths of `count` intervals, sorted by begin and none of them empty; false where they are
// not so. An interval's depth is how many earlier ones are still open, its parent the last before it one level up.
bool nest(const int64_t* begin, const int64_t* finish, size_t count, int64_t* parent, int64_t* depth);

// The same event by event, for intervals so tangled that none of them can be mended: one that outlives the last open
// interval by more than half of itself ends it, and otherwise ends with it. False where a length is out of range.
bool nest_in_turn(const int64_t* begin, const int64_t* finish, size_t count, int64_t* parent, int64_t* depth);

}  // namespace warplens

// Walking up a forest of calls.
#pragma once

#include <cstddef>
#include <cstdint>

namespace warplens {

// Above a row is the row that `forward` names, or where that is negative the one that `parent` names; none where both
// are. A walk ends at a row with a `stop`.
struct Forest {
    const int32_t* parent;
    const int32_t* forward;
    const uint8_t* stop;
    size_t rows;
};

// Where the walks from `count` rows end, -1 for none, and whether each went by way of `forward`. Every row is walked
// from once, whoever comes there. False where a row is not in the forest, or above itself.
bool climb(const Forest& forest, const int64_t* rows, size_t count, int64_t* reached, uint8_t* crossed);

}  // namespace warplens

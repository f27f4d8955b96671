// Names without their numbers.
#pragma once

#include <cstddef>

namespace warplens {

// Writes the text with each run of digits as one '#', unless it belongs to a word (bf16, sm90) and is shorter than six
// digits. The text is ASCII, and `out` has its size; returns how much of it was written.
size_t without_numbers(const char* text, size_t size, char* out);

}  // namespace warplens

// The hot loop: to the next byte of a string that is not plain ASCII text.
//
// Written with the compiler's vector types, which become SSE2 on x86-64 and NEON on 64-bit Arm; other compilers and
// machines take the loop over single bytes. Strings of traces are 5 to 60 bytes long, so wider vectors win nothing.
#pragma once

#include <cstdint>
#include <cstring>

namespace warplens {

// A quote, a backslash, a control character, or a byte beyond ASCII (negative as a signed one).
inline bool is_special(char byte) { return byte == '"' || byte == '\\' || static_cast<signed char>(byte) < 0x20; }

inline const char* next_special_scalar(const char* at) {
    while (!is_special(*at)) ++at;
    return at;
}

#if defined(__GNUC__) && defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ && \
    !defined(WARPLENS_SCALAR)

typedef signed char Bytes16 __attribute__((vector_size(16)));

// Reads up to 15 bytes beyond the one it finds; the padding's zeros end it at the latest.
inline const char* next_special(const char* at) {
    for (;; at += 16) {
        Bytes16 text;
        std::memcpy(&text, at, sizeof text);
        const Bytes16 found = (text == '"') | (text == '\\') | (text < 0x20);
        uint64_t halves[2];
        std::memcpy(halves, &found, sizeof halves);
        if (halves[0]) return at + __builtin_ctzll(halves[0]) / 8;
        if (halves[1]) return at + 8 + __builtin_ctzll(halves[1]) / 8;
    }
}

#else

inline const char* next_special(const char* at) { return next_special_scalar(at); }

#endif

}  // namespace warplens

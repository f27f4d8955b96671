// Numbers of JSON: their grammar, and values that are bit for bit those of a correctly rounding parser.
#pragma once

#include <cmath>
#include <cstdint>

#include "cursor.h"

namespace warplens {

struct Number {
    uint64_t digits = 0;  // all of them as one integer: 12.50 is 1250
    int exponent = 0;     // value = ±digits × 10^exponent
    bool negative = false;
    bool integral = true;    // written without a point and an exponent
    bool overflows = false;  // more digits than 64 bits hold
};

inline bool is_digit(char byte) { return byte >= '0' && byte <= '9'; }

#if defined(__GNUC__) && defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ && \
    !defined(WARPLENS_SCALAR)

// How many of the 8 bytes are digits before the first that is not.
inline int leading_digits(uint64_t bytes) {
    constexpr uint64_t kEach = 0x0101010101010101ull;
    // A digit's upper half is 3, also when 6 is added: ':' to '?' carry into it. Bytes beyond ASCII have it wrong.
    const uint64_t upper = 0xF0 * kEach;
    const uint64_t wrong = ((bytes & upper) ^ 0x30 * kEach) | (((bytes & ~upper) + 6 * kEach) & 0x10 * kEach);
    return wrong == 0 ? 8 : __builtin_ctzll(wrong) / 8;
}

// The value of 8 digits, the first in the lowest byte: pairs, then fours, then all, each a product and a sum.
inline uint64_t eight_digits(uint64_t bytes) {
    bytes = (bytes & 0x0F0F0F0F0F0F0F0Full) * (1 + (10 << 8)) >> 8;
    bytes = (bytes & 0x00FF00FF00FF00FFull) * (1 + (100 << 16)) >> 16;
    return (bytes & 0x0000FFFF0000FFFFull) * (1 + (uint64_t{10000} << 32)) >> 32;
}

// Digits 8 at a time, while they are certain to fit into 64 bits.
inline void take_blocks(Cursor& text, Number& number, int& count) {
    constexpr uint64_t kPowers[] = {1, 10, 100, 1000, 10000, 100000, 1000000, 10000000, 100000000};
    constexpr uint64_t kMostDigits = 10000000000000000000ull;  // 10^19: 19 digits always fit
    int here;
    do {
        uint64_t bytes;
        std::memcpy(&bytes, text.at, sizeof bytes);
        here = leading_digits(bytes);
        if (number.digits >= kMostDigits / kPowers[here]) return;
        // To the end, with zeros before them; in two steps, because 64 places are too many for one.
        const int places = (8 - here) * 4;
        number.digits = number.digits * kPowers[here] + eight_digits(bytes << places << places);
        text.at += here;
        count += here;
    } while (here == 8);
}

// An integer of 1 to 7 digits and nothing else, as most are: without the parts of a number that it does not have.
inline bool take_short_integer(Cursor& text, int64_t& value) {
    uint64_t bytes;
    std::memcpy(&bytes, text.at, sizeof bytes);
    const int count = leading_digits(bytes);
    if (count == 0 || count == 8 || (count > 1 && *text.at == '0')) return false;
    const char next = text.at[count];
    if (next == '.' || next == 'e' || next == 'E') return false;
    value = static_cast<int64_t>(eight_digits(bytes << (64 - 8 * count)));
    text.at += count;
    return true;
}

#else

inline void take_blocks(Cursor&, Number&, int&) {}
inline bool take_short_integer(Cursor&, int64_t&) { return false; }

#endif

inline void take_digits(Cursor& text, Number& number, int& count) {
    constexpr uint64_t kMost = (UINT64_MAX - 9) / 10;
    take_blocks(text, number, count);
    for (; is_digit(*text.at); ++text.at, ++count) {
        if (number.digits > kMost) number.overflows = true;
        number.digits = number.digits * 10 + static_cast<uint64_t>(*text.at - '0');
    }
}

inline bool take_exponent(Cursor& text, Number& number) {
    ++text.at;
    const bool negative = *text.at == '-';
    if (*text.at == '-' || *text.at == '+') ++text.at;
    if (!is_digit(*text.at)) return false;
    int exponent = 0;
    for (; is_digit(*text.at); ++text.at) {
        if (exponent < 10000) exponent = exponent * 10 + (*text.at - '0');
    }
    number.exponent += negative ? -exponent : exponent;
    number.integral = false;
    return true;
}

// By the grammar of JSON: no leading zeros, no plus, digits on both sides of a point.
inline bool take_number(Cursor& text, Number& number) {
    if (*text.at == '-') {
        number.negative = true;
        ++text.at;
    }
    int count = 0;
    if (*text.at == '0') {
        ++text.at;
        if (is_digit(*text.at)) return false;
    } else {
        take_digits(text, number, count);
        if (count == 0) return false;
    }
    if (*text.at == '.') {
        ++text.at;
        count = 0;
        take_digits(text, number, count);
        if (count == 0) return false;
        number.exponent = -count;
        number.integral = false;
    }
    if (*text.at == 'e' || *text.at == 'E') return take_exponent(text, number);
    return true;
}

// Only what is written as an integer and fits; the reference has further rules for the rest.
inline bool to_int(const Number& number, int64_t& value) {
    if (!number.integral || number.overflows || number.digits > static_cast<uint64_t>(INT64_MAX)) return false;
    value = number.negative ? -static_cast<int64_t>(number.digits) : static_cast<int64_t>(number.digits);
    return true;
}

// 10^power for 0 ≤ power ≤ 19: what 64 bits hold, and what a double holds exactly.
constexpr int kMostPower = 19;
inline uint64_t power_of_ten(int power) {
    uint64_t value = 1;
    for (; power > 0; --power) value *= 10;  // 3 for nearly every number
    return value;
}

constexpr uint64_t kExactLimit = uint64_t{1} << 53;  // integers up to here are doubles

#ifdef __SIZEOF_INT128__
// digits ÷ divisor, rounded once, ties to even. The dividend is shifted until its first bit is set: then the quotient
// has 64 bits or more, of which a double keeps 53, and of what follows them only whether it is zero matters.
inline double divided(uint64_t digits, uint64_t divisor) {
    const int shift = 64 + __builtin_clzll(digits);
    const unsigned __int128 dividend = static_cast<unsigned __int128>(digits) << shift;
    unsigned __int128 quotient = dividend / divisor;
    if (quotient * divisor != dividend) quotient |= 1;
    return std::ldexp(static_cast<double>(quotient), -shift);
}
#endif

// The nearest double, where one correctly rounded operation on exact operands gives it; false elsewhere.
inline bool to_double(const Number& number, double& value) {
    const int power = number.exponent < 0 ? -number.exponent : number.exponent;
    if (number.overflows || power > kMostPower) return false;
    const uint64_t scale = power_of_ten(power);
    if (number.digits <= kExactLimit) {
        const double digits = static_cast<double>(number.digits), factor = static_cast<double>(scale);
        value = number.exponent < 0 ? digits / factor : digits * factor;
    } else if (power == 0) {
        value = static_cast<double>(number.digits);
    } else if (number.exponent < 0) {
#ifdef __SIZEOF_INT128__
        value = divided(number.digits, scale);
#else
        return false;
#endif
    } else {
        return false;
    }
    if (number.negative) value = -value;
    return true;
}

constexpr double kLimitMicroseconds = 4e15;  // MAX_NS of the model; beyond it the reference counts damage

// The reference's rule: whole µs never pass through a product, the rest is rounded to the nearest ns, ties to even.
inline bool to_nanoseconds(double microseconds, int64_t& ns) {
    if (!(std::fabs(microseconds) < kLimitMicroseconds)) return false;
    const double whole = std::floor(microseconds);
    ns = static_cast<int64_t>(whole) * 1000 + static_cast<int64_t>(std::nearbyint((microseconds - whole) * 1000));
    return true;
}

}  // namespace warplens

// Values that are passed over, or kept as they are written: their grammar is checked all the same.
#pragma once

#include "numbers.h"
#include "text.h"

namespace warplens {

constexpr int kDeepest = 64;  // what profilers write is 4 deep; the reference reads deeper ones

// What the reference does with a value: `kAsWritten` text may hold any number, of `kDecoded` ones it must fit.
enum class Use { kAsWritten, kDecoded };

inline bool skip_number(Cursor& text, Use use) {
    int64_t integer;
    if (take_short_integer(text, integer)) return true;
    Number number;
    if (!take_number(text, number)) return false;
    double real;
    return use == Use::kAsWritten || to_int(number, integer) || to_double(number, real);
}

bool skip_value(Cursor& text, Use use, int depth = 0);

inline bool skip_members(Cursor& text, Use use, int depth, char close, bool has_keys) {
    text.take(*text.at);
    if (*text.at == close) {
        ++text.at;
        return true;
    }
    for (;;) {
        if (has_keys) {
            Text key;
            if (!take_text(text, key)) return false;
            text.skip_space();
            if (!text.take(':')) return false;
        }
        if (!skip_value(text, use, depth + 1)) return false;
        text.skip_space();
        if (*text.at == close) {
            ++text.at;
            return true;
        }
        if (!text.take(',')) return false;
    }
}

inline bool skip_value(Cursor& text, Use use, int depth) {
    Text string;
    switch (*text.at) {
        case '"': return take_text(text, string);
        case 't': return text.take_word("true");
        case 'f': return text.take_word("false");
        case 'n': return text.take_word("null");
        case '[': return depth < kDeepest && skip_members(text, use, depth, ']', false);
        case '{': return depth < kDeepest && skip_members(text, use, depth, '}', true);
        default: return skip_number(text, use);
    }
}

}  // namespace warplens

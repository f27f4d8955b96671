// A place in the text, and the rule that all parsing functions share.
//
// They return false where they cannot go on, with `at` where they stopped. That is the text's end where only more text
// can decide; anywhere else the text is odd, and the reference reader has to take it. So no function needs to know
// whether its text is whole: an event that does not end in this text is parsed again when more has arrived.
#pragma once

#include <cstddef>
#include <cstring>

namespace warplens {

// How many zero bytes follow the text: loads of a whole vector may cross its end, and a zero ends every token.
constexpr size_t kPadding = 64;

struct Span {
    const char* begin = "";  // never null, also where it is empty
    size_t size = 0;

    bool is(const char* text, size_t length) const { return size == length && std::memcmp(begin, text, length) == 0; }
    template <size_t N>
    bool is(const char (&text)[N]) const {
        return is(text, N - 1);
    }
};

struct Cursor {
    const char* at;
    const char* end;  // readable for kPadding bytes more, all zero
    const char* why = "not the JSON that profilers write";
    bool has_sync_mark = false;  // a string so far ends in "cuda_sync, quote included: see sync_waits.py

    // Fails at a place that was read, because of what is there.
    bool odd(const char* place, const char* reason) {
        at = place;
        why = reason;
        return false;
    }

    // Fails at the text's end, which asks for more of it.
    bool wants_more() {
        at = end;
        return false;
    }

    void skip_space() {
        while (*at == ' ' || *at == '\n' || *at == '\r' || *at == '\t') ++at;
    }

    // Takes one character, and the white space behind it.
    bool take(char expected) {
        if (*at != expected) return false;
        ++at;
        skip_space();
        return true;
    }

    template <size_t N>
    bool take_word(const char (&word)[N]) {
        for (size_t index = 0; index + 1 < N; ++index, ++at) {
            if (*at != word[index]) return false;
        }
        return true;
    }
};

}  // namespace warplens

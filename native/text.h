// Strings of JSON: checked while they are scanned, decoded only where they hold escapes.
#pragma once

#include <cstdint>
#include <string>

#include "cursor.h"
#include "scan.h"

namespace warplens {

struct Text {
    Span raw;  // between the quotes, as the file has it
    bool escaped = false;
};

constexpr const char* kHalfPair = "half a surrogate pair";

inline bool take_hex4(Cursor& text, uint32_t& code) {
    code = 0;
    for (int index = 0; index < 4; ++index, ++text.at) {
        const char byte = *text.at;
        uint32_t digit;
        if (byte >= '0' && byte <= '9') {
            digit = static_cast<uint32_t>(byte - '0');
        } else if ((byte | 0x20) >= 'a' && (byte | 0x20) <= 'f') {
            digit = static_cast<uint32_t>((byte | 0x20) - 'a' + 10);
        } else {
            return false;
        }
        code = code << 4 | digit;
    }
    return true;
}

// A character written as \uXXXX, from the u on; outside the basic plane it is two of them. Half a pair is odd.
inline bool take_unicode_escape(Cursor& text, uint32_t& code) {
    ++text.at;
    if (!take_hex4(text, code)) return false;
    if (code < 0xD800 || code > 0xDFFF) return true;
    if (code > 0xDBFF) return text.odd(text.at - 4, kHalfPair);
    uint32_t low;
    if (!text.take_word("\\u") || !take_hex4(text, low)) return false;
    if (low < 0xDC00 || low > 0xDFFF) return text.odd(text.at - 4, kHalfPair);
    code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
    return true;
}

// One character beyond ASCII, in the only bytes that UTF-8 has for it.
inline bool take_utf8(Cursor& text) {
    const auto byte = [&text](int index) { return static_cast<unsigned char>(text.at[index]); };
    const unsigned char first = byte(0);
    if (first < 0xC2 || first > 0xF4) return false;
    const int more = first < 0xE0 ? 1 : first < 0xF0 ? 2 : 3;
    // The second byte's range leaves out what a shorter sequence, a surrogate or nothing at all stands for.
    const unsigned char least = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
    const unsigned char most = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
    for (int index = 1; index <= more; ++index) {
        if (text.at + index >= text.end) return text.wants_more();
        const unsigned char low = index == 1 ? least : 0x80, high = index == 1 ? most : 0xBF;
        if (byte(index) < low || byte(index) > high) return false;
    }
    text.at += more + 1;
    return true;
}

inline bool take_escape(Cursor& text) {
    ++text.at;
    if (*text.at == 'u') {
        uint32_t code;
        return take_unicode_escape(text, code);
    }
    if (*text.at == 0 || std::strchr("\"\\/bfnrt", *text.at) == nullptr) return false;
    ++text.at;
    return true;
}

// The reference looks for "cuda_sync" with its quotes in the text, whatever it is part of; the first quote may be an
// escaped one.
inline bool ends_in_sync_mark(Span raw) {
    return raw.size >= 9 && std::memcmp(raw.begin + raw.size - 10, "\"cuda_sync", 10) == 0;
}

// On to the closing quote, from something that is not plain ASCII text. A function of its own, because few strings
// need it, and those that do not are read faster without room for it on the stack.
#if defined(__GNUC__)
__attribute__((noinline))
#endif
inline bool take_rest_of_text(Cursor& text, Text& found) {
    while (*text.at != '"') {
        if (*text.at == '\\') {
            found.escaped = true;
            if (!take_escape(text)) return false;
        } else if (static_cast<signed char>(*text.at) >= 0 || !take_utf8(text)) {
            return false;
        }
        text.at = next_special(text.at);
    }
    return true;
}

// From the opening quote to behind the closing one.
inline bool take_text(Cursor& text, Text& found) {
    if (*text.at != '"') return false;
    found.raw.begin = text.at + 1;
    text.at = next_special(found.raw.begin);
    if (*text.at != '"' && !take_rest_of_text(text, found)) return false;
    found.raw.size = static_cast<size_t>(text.at - found.raw.begin);
    if (text.at[-1] == 'c' && ends_in_sync_mark(found.raw)) text.has_sync_mark = true;
    ++text.at;
    return true;
}

inline void append_utf8(std::string& out, uint32_t code) {
    if (code < 0x80) {
        out += static_cast<char>(code);
        return;
    }
    if (code < 0x800) {
        out += static_cast<char>(0xC0 | code >> 6);
    } else if (code < 0x10000) {
        out += static_cast<char>(0xE0 | code >> 12);
        out += static_cast<char>(0x80 | (code >> 6 & 0x3F));
    } else {
        out += static_cast<char>(0xF0 | code >> 18);
        out += static_cast<char>(0x80 | (code >> 12 & 0x3F));
        out += static_cast<char>(0x80 | (code >> 6 & 0x3F));
    }
    out += static_cast<char>(0x80 | (code & 0x3F));
}

inline char unescaped(char letter) {
    switch (letter) {
        case 'b': return '\b';
        case 'f': return '\f';
        case 'n': return '\n';
        case 'r': return '\r';
        case 't': return '\t';
        default: return letter;
    }
}

// What a checked string stands for; `scratch` holds it where that is not what is written.
inline Span decoded(const Text& text, std::string& scratch) {
    if (!text.escaped) return text.raw;
    scratch.clear();
    Cursor in{text.raw.begin, text.raw.begin + text.raw.size};
    while (in.at < in.end) {
        if (*in.at != '\\') {
            scratch += *in.at++;
        } else if (*++in.at == 'u') {
            uint32_t code = 0;
            take_unicode_escape(in, code);
            append_utf8(scratch, code);
        } else {
            scratch += unescaped(*in.at++);
        }
    }
    return {scratch.data(), scratch.size()};
}

}  // namespace warplens

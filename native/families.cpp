#include "families.h"

#include <cstring>

#include "numbers.h"

namespace warplens {

namespace {

constexpr size_t kDigitsOfNoWord = 6;

bool is_letter(char letter) { return (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z'); }

}  // namespace

size_t without_numbers(const char* text, size_t size, char* out) {
    const char* const end = text + size;
    char* to = out;
    bool is_in_word = false;
    while (text != end) {
        if (!is_digit(*text)) {
            is_in_word = is_letter(*text);
            *to++ = *text++;
            continue;
        }
        const char* const digits = text;
        while (text != end && is_digit(*text)) ++text;
        const size_t count = static_cast<size_t>(text - digits);
        if (is_in_word && count < kDigitsOfNoWord) {
            std::memcpy(to, digits, count);
            to += count;
        } else {
            *to++ = '#';
        }
    }
    return static_cast<size_t>(to - out);
}

}  // namespace warplens

// What a file has shown so far and is likely to repeat: what stands between its values, and values checked already.
//
// Both only save work. Where the text is not the expected one it is parsed, so that no result depends on what came
// before.
#pragma once

#include <algorithm>
#include <vector>

#include "fields.h"
#include "skip.h"

namespace warplens {

// The members of one kind of object. What stands between two values (white space, comma, key, colon) is nearly always
// what stood there the last time, and one comparison shows it.
class MemberOrder {
public:
    static constexpr int kUnknown = -1;  // a key that is not in the table
    static constexpr int kClosed = -2;   // the brace behind the last value

    struct Step {
        int field = kUnknown;
        const char* key = "";  // where its quote is
        size_t place = 0;      // for the next step; 0 is before the opening brace
    };

    explicit MemberOrder(const KeyTable& keys) : keys_(keys), places_(kUnknownPlaces + kUnknownCount) {}

    // On to the next value, or behind the closing brace.
    bool take(Cursor& text, Step& step) {
        Place& here = places_[step.place];
        const char* begin = text.at;
        if (!here.two[here.latest].take(text)) {
            here.latest = 1 - here.latest;
            Between& other = here.two[here.latest];
            if (!other.take(text) && !parse(text, step.place == 0, other)) return false;
        }
        const Between& between = here.two[here.latest];
        step = {between.field, begin + between.key_at, between.next};
        if (step.field != kClosed) text.skip_space();
        return true;
    }

private:
    static constexpr size_t kUnknownPlaces = 65;  // behind those of the table's keys, which are 64 at the most
    static constexpr size_t kUnknownCount = 16;
    static constexpr size_t kLongest = 64;  // the longest key of the tables and its white space need 38
    static constexpr size_t kBlock = 32;

    struct Between {
        char expected[kLongest] = {}, mask[kLongest] = {};
        size_t size = 0;  // 0: nothing is expected
        size_t key_at = 0, next = 0;
        int field = kUnknown;

        // Reads kLongest bytes at the most, which the padding makes readable; its zeros are no part of any text. All of
        // a block is compared at once: a loop over as many words as there are would be mispredicted.
        bool take(Cursor& text) const {
            if (size == 0 || differs<0>(text.at)) return false;
            if (size > kBlock && differs<kBlock>(text.at)) return false;
            text.at += size;
            return true;
        }

        void remember(const char* begin, size_t length) {
            size = length <= kLongest ? length : 0;
            std::memset(mask, 0, sizeof mask);
            std::memset(mask, 0xFF, size);
            std::memcpy(expected, begin, size);
        }

    private:
        template <size_t Begin>
        bool differs(const char* text) const {
            uint64_t difference = 0;
            for (size_t at = Begin; at < Begin + kBlock; at += 8) {
                difference |= (word_at(text + at) ^ word_at(expected + at)) & word_at(mask + at);
            }
            return difference != 0;
        }

        static uint64_t word_at(const char* bytes) {
            uint64_t word;
            std::memcpy(&word, bytes, sizeof word);
            return word;
        }
    };
    struct Place {
        Between two[2];  // ops with and without a sequence number take turns
        int latest = 0;
    };

    bool parse(Cursor& text, bool is_first, Between& found) const {
        const char* begin = text.at;
        found.size = 0;
        if (is_first && !text.take('{')) return false;
        text.skip_space();
        if (*text.at == '}') {
            ++text.at;
            found.field = kClosed;
        } else {
            if (!is_first && !text.take(',')) return false;
            found.key_at = static_cast<size_t>(text.at - begin);
            Text key;
            if (!take_text(text, key)) return false;
            if (key.escaped) return text.odd(key.raw.begin, "a key with escapes");
            text.skip_space();
            if (!text.take(':')) return false;
            found.field = keys_.find(key.raw);
            found.next = found.field == kUnknown ? kUnknownPlaces + key.raw.size % kUnknownCount
                                                 : static_cast<size_t>(found.field) + 1;
            if (ends_in_sync_mark(key.raw)) return true;  // to be seen each time
        }
        found.remember(begin, static_cast<size_t>(text.at - begin));
        return true;
    }

    const KeyTable& keys_;
    std::vector<Place> places_;
};

// Lists and strings that are kept as written, such as the shapes of an op's inputs: a program calls the same ops with
// the same shapes again and again, and to compare a text takes a tenth of the time of checking it.
class CheckedValues {
public:
    CheckedValues() : texts_(kPlaces) {}

    // What follows belongs to an event of this name: the place of a value depends on it, not what it is.
    void begin(Span name) {
        uint64_t last = 0;
        std::memcpy(&last, name.begin + name.size - std::min(name.size, sizeof last), std::min(name.size, sizeof last));
        owner_ = last * kOdd + name.size;
    }

    bool take(Cursor& text) {
        std::string& known = texts_[place_of(text.at)];
        if (!known.empty() && static_cast<size_t>(text.end - text.at) >= known.size() &&
            std::memcmp(text.at, known.data(), known.size()) == 0) {
            text.at += known.size();
            return true;
        }
        const char* begin = text.at;
        const bool had_mark = text.has_sync_mark;
        text.has_sync_mark = false;
        if (!skip_value(text, Use::kAsWritten)) return false;
        const auto size = static_cast<size_t>(text.at - begin);
        // A number is not over where another one is: 12 also begins 123.
        const bool has_end = *begin == '[' || *begin == '"' || *begin == '{';
        if (has_end && size <= kLongest && !text.has_sync_mark) known.assign(begin, size);
        text.has_sync_mark |= had_mark;
        return true;
    }

private:
    static constexpr size_t kPlaces = 4096, kLongest = 1024;
    static constexpr uint64_t kOdd = 0x9E3779B97F4A7C15ull;

    // By the name and the first 16 bytes, which the padding makes readable.
    size_t place_of(const char* at) const {
        uint64_t words[2];
        std::memcpy(words, at, sizeof words);
        return static_cast<size_t>((words[0] ^ words[1] * 31 ^ owner_) * kOdd >> 52);
    }

    std::vector<std::string> texts_;
    uint64_t owner_ = 0;
};

}  // namespace warplens

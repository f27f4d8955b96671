// Columns that grow, and tables that give equal byte strings the same small number.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>
#include <type_traits>
#include <vector>

#include "cursor.h"

namespace warplens {

// An array that grows in place where the system can: the C library moves large blocks by their pages, so a column of
// 100 MB is never in memory twice, and what is reserved but not yet written costs nothing.
template <typename T>
class Column {
    static_assert(std::is_trivially_copyable<T>::value, "moved as bytes");

public:
    Column() = default;
    Column(const Column&) = delete;
    Column& operator=(const Column&) = delete;
    ~Column() { std::free(data_); }

    void push(T value) {
        if (size_ == capacity_) grow(size_ + 1);
        data_[size_++] = value;
    }

    void append(const T* values, size_t count) {
        if (count == 0) return;
        if (count > capacity_ - size_) grow(size_ + count);
        std::memcpy(data_ + size_, values, count * sizeof(T));
        size_ += count;
    }

    T& operator[](size_t index) { return data_[index]; }
    const T& operator[](size_t index) const { return data_[index]; }
    const T* data() const { return data_; }
    size_t size() const { return size_; }
    void clear() { size_ = 0; }

private:
    void grow(size_t least) {
        size_t wanted = capacity_ * 2 > least ? capacity_ * 2 : least;
        if (wanted < 64) wanted = 64;
        if (wanted > SIZE_MAX / sizeof(T)) throw std::bad_alloc();
        void* moved = std::realloc(static_cast<void*>(data_), wanted * sizeof(T));
        if (moved == nullptr) throw std::bad_alloc();
        data_ = static_cast<T*>(moved);
        capacity_ = wanted;
    }

    T* data_ = nullptr;
    size_t size_ = 0;
    size_t capacity_ = 0;
};

// Byte strings one after the other: number n is between offsets n and n + 1.
struct Strings {
    Column<char> bytes;
    Column<uint64_t> offsets;

    Strings() { offsets.push(0); }
    size_t size() const { return offsets.size() - 1; }
    Span operator[](size_t index) const {
        if (offsets[index + 1] == offsets[index]) return {};
        return {bytes.data() + offsets[index], static_cast<size_t>(offsets[index + 1] - offsets[index])};
    }
    void push(Span text) {
        bytes.append(text.begin, text.size);
        offsets.push(bytes.size());
    }
};

// Seeded, so that no file can be made whose strings all fall into one place.
inline uint64_t hash_of(Span text, uint64_t seed) {
    constexpr uint64_t kOdd = 0x9E3779B97F4A7C15ull;
    uint64_t hash = seed ^ (text.size * kOdd);
    const auto mix = [&hash](uint64_t word) {
        hash = (hash ^ word) * kOdd;
        hash ^= hash >> 32;
    };
    const char* at = text.begin;
    size_t left = text.size;
    for (; left >= 8; at += 8, left -= 8) {
        uint64_t word;
        std::memcpy(&word, at, 8);
        mix(word);
    }
    uint64_t last = 0;
    if (left > 0) std::memcpy(&last, at, left);
    mix(last);
    mix(seed);
    return hash;
}

class Interner {
public:
    explicit Interner(uint64_t seed) : seed_(seed), places_(64, kFree) {}

    // The number of this string, a new one where it was not met before.
    uint32_t code(Span text) {
        const uint64_t hash = hash_of(text, seed_);
        size_t place = hash & (places_.size() - 1);
        for (; places_[place] != kFree; place = (place + 1) & (places_.size() - 1)) {
            const uint32_t known = places_[place];
            if (hashes_[known] == hash && strings_[known].is(text.begin, text.size)) return known;
        }
        const auto fresh = static_cast<uint32_t>(strings_.size());
        if (fresh >= INT32_MAX) throw std::bad_alloc();
        strings_.push(text);
        hashes_.push(hash);
        places_[place] = fresh;
        if (strings_.size() * 2 > places_.size()) rehash();
        return fresh;
    }

    size_t size() const { return strings_.size(); }
    const Strings& strings() const { return strings_; }

private:
    static constexpr uint32_t kFree = UINT32_MAX;

    void rehash() {
        std::vector<uint32_t> wider(places_.size() * 2, kFree);
        for (uint32_t known = 0; known < strings_.size(); ++known) {
            size_t place = hashes_[known] & (wider.size() - 1);
            while (wider[place] != kFree) place = (place + 1) & (wider.size() - 1);
            wider[place] = known;
        }
        places_.swap(wider);
    }

    uint64_t seed_;
    std::vector<uint32_t> places_;
    Column<uint64_t> hashes_;
    Strings strings_;
};

// Numbers in the order of the reference, which is not that of the file: strings are interned as they are met, and get
// their final number when the reference would give it.
class OrderedInterner {
public:
    explicit OrderedInterner(uint64_t seed) : met_(seed) {}

    uint32_t meet(Span text) {
        const uint32_t number = met_.code(text);
        if (number == final_.size()) final_.push(kNone);
        return number;
    }

    int32_t final_code(uint32_t number) {
        int32_t& code = final_[number];
        if (code == kNone) {
            code = static_cast<int32_t>(order_.size());
            order_.push(number);
        }
        return code;
    }

    void write_in_order(Strings& out) const {
        for (size_t code = 0; code < order_.size(); ++code) out.push(met_.strings()[order_[code]]);
    }

private:
    static constexpr int32_t kNone = -1;
    Interner met_;
    Column<int32_t> final_;
    Column<uint32_t> order_;
};

}  // namespace warplens

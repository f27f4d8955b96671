// The keys of an event and of its `args` that the reference decodes, and the type that it expects of each.
//
// The list mirrors KinetoEvent and KinetoArgs of records.py; a test compares the two. Every listed value is checked,
// also where nothing uses it: a value of another type makes the reference mend the event and count it as damaged.
#pragma once

#include <cstdint>

#include "cursor.h"

namespace warplens {

enum class Type : char {
    kText = 's',
    kIdentifier = 'u',  // int | str | None
    kReal = 'f',
    kObject = 'o',  // the args, or None
    kInteger = 'i',
    kRaw = 'r',         // kept as written
    kTextOrNull = 't',  // str | None
    kTextOrList = 'l',  // str | list | None
    kScalar = 'a',      // str | int | float | None
};

struct Field {
    const char* key;
    Type type;
};

enum EventField { kPhase, kCategory, kName, kProcess, kThread, kTime, kDuration, kArgs, kId, kEventFields };

constexpr Field kEventTable[kEventFields] = {
    {"ph", Type::kText},        {"cat", Type::kText},       {"name", Type::kText},
    {"pid", Type::kIdentifier}, {"tid", Type::kIdentifier}, {"ts", Type::kReal},
    {"dur", Type::kReal},       {"args", Type::kObject},    {"id", Type::kIdentifier},
};

// Integers that are columns come first, then the other integers that are kept, then values kept as written.
enum ArgField {
    kExternalId,
    kSequence,
    kForwardThread,
    kCorrelation,
    kDevice,
    kStream,
    kEventInts,
    kRegisters = kEventInts,
    kSharedMemory,
    kBytes,
    kKeptInts,
    kInputDims = kKeptInts,
    kInputTypes,
    kInputStrides,
    kConcreteInputs,
    kGrid,
    kBlock,
    kKeptRaws,
    kOccupancy = kKeptRaws,
    kCollective,
    // Of an allocation: integers that are kept, but have no value where they are absent.
    kMemory,
    kMemoryBytes = kMemory,
    kMemoryAllocated,
    kMemoryReserved,
    kMemoryAddress,
    kMemoryDeviceType,
    kMemoryDevice,
    kMemoryEnd,
    kCheckedOnly = kMemoryEnd,
};
constexpr int kMemoryInts = kMemoryEnd - kMemory;

constexpr Field kArgTable[] = {
    {"External id", Type::kInteger},
    {"Sequence number", Type::kInteger},
    {"Fwd thread id", Type::kInteger},
    {"correlation", Type::kInteger},
    {"device", Type::kInteger},
    {"stream", Type::kInteger},
    {"registers per thread", Type::kInteger},
    {"shared memory", Type::kInteger},
    {"bytes", Type::kInteger},
    {"Input Dims", Type::kRaw},
    {"Input type", Type::kRaw},
    {"Input Strides", Type::kRaw},
    {"Concrete Inputs", Type::kRaw},
    {"grid", Type::kRaw},
    {"block", Type::kRaw},
    {"est. achieved occupancy %", Type::kReal},
    {"Collective name", Type::kTextOrNull},
    {"Bytes", Type::kInteger},
    {"Total Allocated", Type::kInteger},
    {"Total Reserved", Type::kInteger},
    {"Addr", Type::kInteger},
    {"Device Type", Type::kInteger},
    {"Device Id", Type::kInteger},
    // Only checked: events with a collective and labels are decoded by the reference itself.
    {"dtype", Type::kTextOrNull},
    {"In msg nelems", Type::kInteger},
    {"Out msg nelems", Type::kInteger},
    {"Group size", Type::kInteger},
    {"Process Group Name", Type::kIdentifier},
    {"Process Group Description", Type::kTextOrNull},
    {"Process Group Ranks", Type::kTextOrList},
    {"Seq", Type::kInteger},
    {"Src Rank", Type::kInteger},
    {"Dst Rank", Type::kInteger},
    {"In split size", Type::kTextOrList},
    {"Out split size", Type::kTextOrList},
    {"name", Type::kScalar},
};
constexpr int kArgFields = sizeof(kArgTable) / sizeof(kArgTable[0]);
static_assert(kArgFields <= 64, "a bit each");

// Which key of a table a text is: one look at a place that its length and three of its letters choose.
class KeyTable {
public:
    template <int N>
    explicit KeyTable(const Field (&fields)[N]) {
        do {
            factor_ += 2;
        } while (!fill(fields, N));
    }

    int find(Span key) const {
        const Entry& entry = entries_[place(key.begin, key.size)];
        return entry.size == key.size && std::memcmp(entry.key, key.begin, key.size) == 0 ? entry.field : -1;
    }

private:
    struct Entry {
        const char* key = "";
        size_t size = SIZE_MAX;
        int field = -1;
    };
    static constexpr int kPlaces = 256;

    // An empty key has its quotes looked at, which every text has.
    size_t place(const char* key, size_t size) const {
        const auto letter = [key](size_t index) -> uint32_t { return static_cast<unsigned char>(key[index]); };
        const uint32_t mixed = static_cast<uint32_t>(size) * 8191 + letter(0) * 1021 + letter(size / 2) * 127 +
                               (size > 0 ? letter(size - 1) : 0);
        return static_cast<uint32_t>(mixed * factor_) >> 24;
    }

    bool fill(const Field* fields, int count) {
        for (Entry& entry : entries_) entry = Entry();
        for (int field = 0; field < count; ++field) {
            const size_t size = std::strlen(fields[field].key);
            Entry& entry = entries_[place(fields[field].key, size)];
            if (entry.field >= 0) return false;
            entry.key = fields[field].key;
            entry.size = size;
            entry.field = field;
        }
        return true;
    }

    uint32_t factor_ = 0x9E3779B1u;
    Entry entries_[kPlaces];
};

}  // namespace warplens

// One event of the text.
#pragma once

#include "learned.h"

namespace warplens {

// How a file names a process, a thread or an arrow.
struct Identifier {
    enum Kind : char { kNone = 'n', kInteger = 'i', kText = 's' };
    Kind kind = kNone;
    int64_t integer = 0;
    Text text;
};

struct Event {
    Span whole;
    Text phase, category, name;
    Identifier process, thread, id;
    double time_us = 0, duration_us = 0;
    uint32_t event_fields = 0;  // a bit for each that is there
    uint64_t arg_fields = 0;
    int64_t ints[kKeptInts];  // -1: absent
    int64_t memory[kMemoryInts];  // set where `arg_fields` has the field
    Span raws[kKeptRaws - kKeptInts];
    double occupancy = -1;
    bool has_collective = false;
    bool has_sync_mark = false;

    Event() {
        for (int64_t& value : ints) value = -1;
    }
    bool has(EventField field) const { return event_fields >> field & 1; }
    int64_t memory_or(int field, int64_t absent) const {
        return arg_fields >> field & 1 ? memory[field - kMemory] : absent;
    }
    const Span& raw(ArgField field) const { return raws[field - kKeptInts]; }
};

// What the events of one file have in common.
struct Learned {
    Learned();

    MemberOrder event_order, arg_order;
    CheckedValues values;
};

// From its opening brace to behind its closing one.
bool take_event(Cursor& text, Event& event, Learned& learned);

}  // namespace warplens

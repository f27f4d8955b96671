#include "event.h"

namespace warplens {
namespace {

const KeyTable kEventKeys(kEventTable);
const KeyTable kArgKeys(kArgTable);

constexpr const char* kWrongType = "a value of a type that profilers do not write";

// ROCm and XLA write some numbers as strings, which the reference takes for numbers.
bool take_number_or_string(Cursor& text, Number& number) {
    if (*text.at != '"') return take_number(text, number);
    ++text.at;
    if (!take_number(text, number) || *text.at != '"') return false;
    ++text.at;
    return true;
}

bool take_integer(Cursor& text, int64_t& value) {
    if (take_short_integer(text, value)) return true;
    const char* start = text.at;
    Number number;
    if (!take_number_or_string(text, number)) return false;
    return to_int(number, value) || text.odd(start, "not an integer of 64 bits");
}

bool is_hex_digit(char letter) {
    return is_digit(letter) || (letter >= 'a' && letter <= 'f') || (letter >= 'A' && letter <= 'F');
}

// ROCm gives a stream by its address ("0x55d8564ba340"), which the Python reader takes as no stream's number.
bool take_stream(Cursor& text, int64_t& value) {
    if (*text.at != '"' || text.at[1] != '0' || text.at[2] != 'x') return take_integer(text, value);
    const char* start = text.at;
    text.at += 3;
    while (is_hex_digit(*text.at)) ++text.at;
    if (*text.at != '"') return false;
    const auto digits = text.at - start - 3;
    if (digits < 1 || digits > 16) return text.odd(start, "not an integer of 64 bits");
    ++text.at;
    return true;
}

bool take_real(Cursor& text, double& value) {
    const char* start = text.at;
    Number number;
    if (!take_number_or_string(text, number)) return false;
    return to_double(number, value) || text.odd(start, "a number of too many digits");
}

bool take_identifier(Cursor& text, Identifier& identifier) {
    if (*text.at == '"') {
        identifier.kind = Identifier::kText;
        return take_text(text, identifier.text);
    }
    if (*text.at == 'n') return text.take_word("null");
    identifier.kind = Identifier::kInteger;
    return take_integer(text, identifier.integer);
}

bool take_raw(Cursor& text, CheckedValues& checked, Span& raw) {
    raw.begin = text.at;
    if (!checked.take(text)) return false;
    raw.size = static_cast<size_t>(text.at - raw.begin);
    return true;
}

// Values of types that are checked but not kept, by the characters that they may begin with.
bool check_value(Cursor& text, const char* first) {
    const bool is_number = *text.at == '-' || is_digit(*text.at);
    if (text.at < text.end && std::strchr(first, is_number ? '0' : *text.at) == nullptr) {
        return text.odd(text.at, kWrongType);
    }
    return skip_value(text, Use::kDecoded);
}

bool take_collective(Cursor& text, Event& event) {
    if (*text.at == 'n') return text.take_word("null");
    Text name;
    if (!take_text(text, name)) return false;
    event.has_collective = name.raw.size > 0;
    return true;
}

bool take_occupancy(Cursor& text, Event& event) {
    const char* start = text.at;
    if (!take_real(text, event.occupancy)) return false;
    // It is part of a key: for the reference 0 and -0 are equal, as bits they are not.
    return event.occupancy != 0 || !std::signbit(event.occupancy) || text.odd(start, "a negative zero");
}

bool take_arg(Cursor& text, Event& event, Learned& learned, int field) {
    if (field == kOccupancy) return take_occupancy(text, event);
    if (field == kCollective) return take_collective(text, event);
    if (field == kStream) return take_stream(text, event.ints[kStream]);
    if (field >= kMemory && field < kMemoryEnd) return take_integer(text, event.memory[field - kMemory]);
    int64_t unused;
    Identifier identifier;
    switch (kArgTable[field].type) {
        case Type::kInteger: return take_integer(text, field < kKeptInts ? event.ints[field] : unused);
        case Type::kRaw: return take_raw(text, learned.values, event.raws[field - kKeptInts]);
        case Type::kTextOrNull: return check_value(text, "\"n");
        case Type::kIdentifier: return take_identifier(text, identifier);
        case Type::kTextOrList: return check_value(text, "\"n[");
        case Type::kScalar: return check_value(text, "\"n0");
        default: return false;
    }
}

// An object's members: `take_member` has the key's number in the table.
template <typename TakeMember>
bool take_object(Cursor& text, MemberOrder& order, uint64_t& fields, TakeMember take_member) {
    MemberOrder::Step step;
    while (order.take(text, step)) {
        if (step.field == MemberOrder::kClosed) return true;
        if (step.field == MemberOrder::kUnknown) {
            if (!skip_value(text, Use::kAsWritten)) return false;
        } else {
            if (fields >> step.field & 1) return text.odd(step.key, "a key twice");
            fields |= uint64_t{1} << step.field;
            if (!take_member(step.field)) return false;
        }
    }
    return false;
}

bool take_args(Cursor& text, Event& event, Learned& learned) {
    if (*text.at == 'n') return text.take_word("null");
    learned.values.begin(event.name.raw);
    const auto take_member = [&](int field) { return take_arg(text, event, learned, field); };
    return take_object(text, learned.arg_order, event.arg_fields, take_member);
}

bool take_event_field(Cursor& text, Event& event, Learned& learned, int field) {
    switch (field) {
        case kPhase: return take_text(text, event.phase);
        case kCategory: return take_text(text, event.category);
        case kName: return take_text(text, event.name);
        case kProcess: return take_identifier(text, event.process);
        case kThread: return take_identifier(text, event.thread);
        case kTime: return take_real(text, event.time_us);
        case kDuration: return take_real(text, event.duration_us);
        case kId: return take_identifier(text, event.id);
        default: return take_args(text, event, learned);
    }
}

}  // namespace

Learned::Learned() : event_order(kEventKeys), arg_order(kArgKeys) {}

bool take_event(Cursor& text, Event& event, Learned& learned) {
    event.whole.begin = text.at;
    uint64_t fields = 0;
    text.has_sync_mark = false;
    const auto take_member = [&](int field) { return take_event_field(text, event, learned, field); };
    if (!take_object(text, learned.event_order, fields, take_member)) return false;
    event.event_fields = static_cast<uint32_t>(fields);
    event.has_sync_mark = text.has_sync_mark;
    event.whole.size = static_cast<size_t>(text.at - event.whole.begin);
    return true;
}

}  // namespace warplens

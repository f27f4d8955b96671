#include "pieces.h"

namespace warplens {
namespace {

constexpr const char* kTimed = "X";

bool is_flow(Span phase) { return phase.is("s") || phase.is("f"); }

std::string lower_case(Span text) {
    std::string lower(text.begin, text.size);
    for (char& letter : lower) {
        if (letter >= 'A' && letter <= 'Z') letter = static_cast<char>(letter - 'A' + 'a');
    }
    return lower;
}

bool is_ascii(Span text) {
    for (size_t index = 0; index < text.size; ++index) {
        if (static_cast<signed char>(text.begin[index]) < 0) return false;
    }
    return true;
}

template <typename T>
void append_bytes(std::string& key, T value) {
    key.append(reinterpret_cast<const char*>(&value), sizeof value);
}

void append_span(std::string& key, Span text) {
    if (text.size > 0) key.append(text.begin, text.size);
}

}  // namespace

Pieces::Pieces(const Rules& rules, uint64_t seed)
    : rules_(rules),
      categories_(seed),
      phases_(seed),
      identifiers_(seed),
      flow_keys_(seed),
      names_(seed),
      lanes_(seed),
      specs_(seed),
      geometries_(seed) {
    phases_.code({kTimed, 1});  // the reference counts these first, also where there are none
    tables.phase_count.push(0);
}

bool Pieces::odd(const char* reason) {
    why = reason;
    return false;
}

bool Pieces::add(const Event& event) {
    std::string phase_scratch;
    const Span phase = decoded(event.phase, phase_scratch);
    if (phase.is(kTimed, 1)) {
        if (!add_timed(event)) return false;
    } else if (is_flow(phase)) {
        if (!add_flow_end(event)) return false;
    } else if (phase.is("M")) {
        append_event(tables.rest_text, event);
    } else if (decoded(event.name, scratch_).is("[memory]")) {
        if (!add_allocation(event)) return false;
    } else if (phase.is("B") || phase.is("E")) {
        append_event(tables.rest_text, event);
    }
    if (event.has_sync_mark) append_event(tables.sync_text, event);
    count_phase(phase);
    return true;
}

void Pieces::append_event(Column<char>& text, const Event& event) {
    text.append(event.whole.begin, event.whole.size);
    text.push(',');
}

void Pieces::count_phase(Span phase) {
    if (phase.is(kTimed, 1)) {
        ++tables.phase_count[0];
        return;
    }
    const uint32_t code = phases_.code(phase);
    if (code == tables.phase_count.size()) tables.phase_count.push(0);
    ++tables.phase_count[code];
}

bool Pieces::add_timed(const Event& event) {
    Category& category = category_of(event.category);
    if (category.is_odd) return odd("a category beyond ASCII");
    Timed timed{};
    if (!event.has(kTime) || !event.has(kDuration)) return odd("an event without a time");
    if (!to_nanoseconds(event.time_us, timed.start_ns) || !to_nanoseconds(event.duration_us, timed.dur_ns)) {
        return odd("a time out of range");
    }
    if (category.is_own) return true;
    const uint16_t parts = category.rule.parts;
    timed.name = names_.meet(decoded(event.name, scratch_));
    timed.lane = lane_of(event);
    for (int field = 0; field < kEventInts; ++field) timed.ints[field] = parts >> field & 1 ? event.ints[field] : -1;
    if (parts & CategoryRule::kSpec) timed.spec = spec_of(event);
    if (parts & CategoryRule::kGeometry) timed.geometry = geometry_of(event);
    timed.bytes = parts & CategoryRule::kGeometry ? event.ints[kBytes] : -1;
    timed.collective = -1;
    if (parts & CategoryRule::kCollective && event.has_collective) {
        timed.collective = collectives_++;
        append_event(tables.collective_text, event);
    }
    if (category.members.empty()) piece_categories_.push_back(static_cast<uint32_t>(&category - category_list_.data()));
    category.members.push_back(timed);
    return true;
}

// Most events are of the category of the one before.
uint32_t Pieces::category_code(const Text& text) {
    const Span name = decoded(text, scratch_);
    if (latest_category_ >= categories_.size() || !categories_.strings()[latest_category_].is(name.begin, name.size)) {
        latest_category_ = categories_.code(name);
    }
    return latest_category_;
}

Pieces::Category& Pieces::category_of(const Text& text) {
    const uint32_t code = category_code(text);
    if (code < category_list_.size()) return category_list_[code];
    const Span name = categories_.strings()[code];
    Category category;
    category.rule = rules_.other;
    category.is_odd = !is_ascii(name);  // the reference has lower case for every letter of Unicode
    const std::string& own = rules_.own_prefix;
    category.is_own = name.size >= own.size() && std::memcmp(name.begin, own.data(), own.size()) == 0;
    const std::string lower = lower_case(name);
    for (const auto& [known, rule] : rules_.categories) {
        if (known == lower) category.rule = rule;
    }
    category_list_.push_back(std::move(category));
    return category_list_.back();
}

uint32_t Pieces::identifier_code(const Identifier& identifier, Interner& interner) {
    key_.assign(1, static_cast<char>(identifier.kind));
    if (identifier.kind == Identifier::kInteger) append_bytes(key_, identifier.integer);
    if (identifier.kind == Identifier::kText) append_span(key_, decoded(identifier.text, scratch_));
    return interner.code({key_.data(), key_.size()});
}

uint32_t Pieces::remembered_code(const Identifier& identifier, Remembered& latest) {
    const bool is_integer = identifier.kind == Identifier::kInteger;
    if (is_integer && latest.is_set && latest.integer == identifier.integer) return latest.code;
    const uint32_t code = identifier_code(identifier, identifiers_);
    if (is_integer) latest = {true, identifier.integer, code};
    return code;
}

uint32_t Pieces::lane_of(const Event& event) {
    const uint32_t pair[2] = {remembered_code(event.process, process_), remembered_code(event.thread, thread_)};
    if (std::memcmp(pair, latest_lane_key_, sizeof pair) != 0) {
        std::memcpy(latest_lane_key_, pair, sizeof pair);
        latest_lane_ = lanes_.meet({reinterpret_cast<const char*>(pair), sizeof pair});
    }
    return latest_lane_;
}

uint32_t Pieces::spec_of(const Event& event) {
    key_.clear();
    for (const ArgField field : {kInputDims, kInputTypes, kInputStrides, kConcreteInputs}) {
        if (field != kInputDims) key_ += '\0';
        append_span(key_, event.raw(field));
    }
    return specs_.meet({key_.data(), key_.size()});
}

uint32_t Pieces::geometry_of(const Event& event) {
    key_.clear();
    append_bytes(key_, event.ints[kRegisters]);
    append_bytes(key_, event.ints[kSharedMemory]);
    append_bytes(key_, event.occupancy);
    append_span(key_, event.raw(kGrid));
    key_ += '\0';
    append_span(key_, event.raw(kBlock));
    return geometries_.meet({key_.data(), key_.size()});
}

bool Pieces::add_flow_end(const Event& event) {
    std::string category;
    if (!decoded(event.category, category).is("fwdbwd")) return true;
    FlowEnd end{};
    if (!event.has(kTime) || !to_nanoseconds(event.time_us, end.ns)) return odd("a flow without a usable time");
    std::string phase;
    end.opens = decoded(event.phase, phase).is("s");
    end.key = identifier_code(event.id, flow_keys_);
    end.lane = lane_of(event);
    piece_flows_.push_back(end);
    return true;
}

bool Pieces::add_allocation(const Event& event) {
    int64_t ns;
    if (!event.has(kTime) || !to_nanoseconds(event.time_us, ns)) return odd("an allocation without a usable time");
    tables.memory_ns.push(ns);
    tables.memory_process.push(static_cast<int32_t>(remembered_code(event.process, process_)));
    tables.memory_thread.push(static_cast<int32_t>(remembered_code(event.thread, thread_)));
    for (int field = kMemory; field < kMemoryEnd; ++field) {
        tables.memory[field - kMemory].push(event.memory_or(field, field == kMemoryBytes ? 0 : -1));
    }
    return true;
}

void Pieces::flush() {
    for (const uint32_t number : piece_categories_) {
        Category& category = category_list_[number];
        if (!category.is_listed) tables.categories.push(categories_.strings()[number]);
        category.is_listed = true;
        for (const Timed& event : category.members) write_timed(category, event);
        category.members.clear();
    }
    piece_categories_.clear();
    for (const FlowEnd& end : piece_flows_) {
        tables.flow_opens.push(end.opens);
        tables.flow_key.push(static_cast<int32_t>(end.key));
        tables.flow_ns.push(end.ns);
        tables.flow_lane.push(lanes_.final_code(end.lane));
    }
    piece_flows_.clear();
}

void Pieces::write_timed(const Category& category, const Timed& event) {
    const CategoryRule rule = category.rule;
    const auto number = static_cast<int64_t>(tables.kind.size());
    tables.kind.push(rule.kind);
    tables.name.push(names_.final_code(event.name));
    tables.start_ns.push(event.start_ns);
    tables.dur_ns.push(event.dur_ns);
    tables.lane.push(lanes_.final_code(event.lane));
    for (int field = 0; field < kEventInts; ++field) tables.ints[field].push(event.ints[field]);
    tables.spec.push(rule.parts & CategoryRule::kSpec ? specs_.final_code(event.spec) : -1);
    tables.geometry.push(rule.parts & CategoryRule::kGeometry ? geometries_.final_code(event.geometry) : -1);
    if (event.bytes >= 0) {
        tables.copy_event.push(number);
        tables.copy_bytes.push(event.bytes);
    }
    if (event.collective >= 0) {
        tables.collective_event.push(number);
        tables.collective_entry.push(event.collective);
    }
}

void Pieces::finish() {
    flush();
    names_.write_in_order(tables.names);
    specs_.write_in_order(tables.specs);
    geometries_.write_in_order(tables.geometries);
    Strings lanes;
    lanes_.write_in_order(lanes);
    for (size_t lane = 0; lane < lanes.size(); ++lane) {
        int32_t pair[2];
        std::memcpy(pair, lanes[lane].begin, sizeof pair);
        tables.lane_process.push(pair[0]);
        tables.lane_thread.push(pair[1]);
    }
    for (size_t code = 0; code < identifiers_.size(); ++code) tables.identifiers.push(identifiers_.strings()[code]);
    for (size_t code = 0; code < flow_keys_.size(); ++code) tables.flow_keys.push(flow_keys_.strings()[code]);
    for (size_t code = 0; code < phases_.size(); ++code) tables.phases.push(phases_.strings()[code]);
}

}  // namespace warplens

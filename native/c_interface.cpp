#include "warplens_native.h"

#include <cstdio>
#include <memory>
#include <string>

#include "climb.h"
#include "families.h"
#include "nest.h"
#include "reader.h"
#include "sequences.h"
#include "simulate.h"

using namespace warplens;

struct wl_reader {
    wl_reader(Rules rules, uint64_t seed) : reader(std::move(rules), seed) {}

    Reader reader;
    std::vector<wl_array> arrays;
    bool out_of_memory = false;
};

struct wl_sequences {
    Sequences found;
};

namespace {

const char* const kParts[] = {"external_id", "sequence", "forward_thread", "correlation",
                              "device",      "stream",   "spec",           "geometry",
                              "collective"};
static_assert(CategoryRule::kCollective == 1 << 8, "the order of kParts");
const char* const kMemoryNames[] = {"memory_bytes",   "memory_allocated",   "memory_reserved",
                                    "memory_address", "memory_device_type", "memory_device"};
static_assert(sizeof kMemoryNames / sizeof *kMemoryNames == kMemoryInts, "a name each, in the order of ArgField");

const char* type_of(const Column<uint8_t>&) { return "u1"; }
const char* type_of(const Column<char>&) { return "u1"; }
const char* type_of(const Column<int32_t>&) { return "i4"; }
const char* type_of(const Column<int64_t>&) { return "i8"; }
const char* type_of(const Column<uint64_t>&) { return "u8"; }

class Lister {
public:
    explicit Lister(std::vector<wl_array>& arrays) : arrays_(arrays) {}

    template <typename T>
    void operator()(const char* name, const Column<T>& column) {
        arrays_.push_back({name, type_of(column), column.data(), column.size() * sizeof(T)});
    }
    void operator()(const char* bytes_name, const char* offsets_name, const Strings& strings) {
        (*this)(bytes_name, strings.bytes);
        (*this)(offsets_name, strings.offsets);
    }

private:
    std::vector<wl_array>& arrays_;
};

void list_arrays(const Reader& reader, std::vector<wl_array>& arrays) {
    const Tables& tables = reader.tables();
    Lister list(arrays);
    list("kind", tables.kind);
    list("name", tables.name);
    list("start_ns", tables.start_ns);
    list("dur_ns", tables.dur_ns);
    list("lane", tables.lane);
    for (int field = 0; field < kEventInts; ++field) list(kParts[field], tables.ints[field]);
    list("spec", tables.spec);
    list("geometry", tables.geometry);
    list("copy_event", tables.copy_event);
    list("copy_bytes", tables.copy_bytes);
    list("collective_event", tables.collective_event);
    list("collective_entry", tables.collective_entry);
    list("flow_opens", tables.flow_opens);
    list("flow_key", tables.flow_key);
    list("flow_ns", tables.flow_ns);
    list("flow_lane", tables.flow_lane);
    list("memory_ns", tables.memory_ns);
    list("memory_process", tables.memory_process);
    list("memory_thread", tables.memory_thread);
    for (int field = 0; field < kMemoryInts; ++field) list(kMemoryNames[field], tables.memory[field]);
    list("lane_process", tables.lane_process);
    list("lane_thread", tables.lane_thread);
    list("phase_count", tables.phase_count);
    list("names", "names_at", tables.names);
    list("specs", "specs_at", tables.specs);
    list("geometries", "geometries_at", tables.geometries);
    list("identifiers", "identifiers_at", tables.identifiers);
    list("flow_keys", "flow_keys_at", tables.flow_keys);
    list("categories", "categories_at", tables.categories);
    list("phases", "phases_at", tables.phases);
    list("rest_text", tables.rest_text);
    list("collective_text", tables.collective_text);
    list("sync_text", tables.sync_text);
    arrays.push_back({"tail", "u1", reader.tail().begin, reader.tail().size});
}

CategoryRule rule_of(const wl_category& category) {
    CategoryRule rule;
    rule.kind = category.kind;
    rule.parts = category.parts;
    return rule;
}

std::string fields_text() {
    std::string text;
    const auto add = [&text](const char* place, const Field& field) {
        text += std::string(place) + static_cast<char>(field.type) + " " + field.key + "\n";
    };
    for (const Field& field : kEventTable) add("event ", field);
    for (const Field& field : kArgTable) add("args ", field);
    return text;
}

// Where memory is short the reference may still find a way, or has the words to say so.
template <typename Work>
wl_state guarded(wl_reader* reader, Work work) {
    try {
        if (!reader->out_of_memory) return static_cast<wl_state>(work());
    } catch (...) {
        reader->out_of_memory = true;
    }
    return WL_HANDED_OVER;
}

}  // namespace

int wl_version(void) { return WL_VERSION; }

const char* wl_parts(void) {
    static const std::string text = [] {
        std::string lines;
        for (const char* part : kParts) lines += std::string(part) + "\n";
        return lines;
    }();
    return text.c_str();
}

const char* wl_fields(void) {
    static const std::string text = fields_text();
    return text.c_str();
}

wl_reader* wl_new(const wl_category* categories, size_t count, const char* own_prefix, uint64_t piece_bytes,
                  uint64_t seed) {
    try {
        Rules rules;
        for (size_t index = 0; index + 1 < count; ++index) {
            rules.categories.emplace_back(categories[index].name, rule_of(categories[index]));
        }
        rules.other = rule_of(categories[count - 1]);
        rules.own_prefix = own_prefix;
        rules.piece_bytes = piece_bytes;
        return new wl_reader(std::move(rules), seed);
    } catch (...) {
        return nullptr;
    }
}

void wl_free(wl_reader* reader) { delete reader; }

wl_state wl_feed(wl_reader* reader, const void* text, size_t size) {
    return guarded(reader, [&] { return reader->reader.feed(static_cast<const char*>(text), size); });
}

wl_state wl_finish(wl_reader* reader) {
    return guarded(reader, [&] {
        const State state = reader->reader.finish();
        reader->arrays.clear();
        list_arrays(reader->reader, reader->arrays);
        return state;
    });
}

int wl_get(const wl_reader* reader, size_t number, wl_array* array) {
    if (number >= reader->arrays.size()) return 0;
    *array = reader->arrays[number];
    return 1;
}

const char* wl_why(const wl_reader* reader, uint64_t* at) {
    *at = reader->reader.odd_at();
    return reader->out_of_memory ? "not enough memory" : reader->reader.why();
}

int wl_nest(const int64_t* start, const int64_t* end, const uint8_t* soft, size_t count, int64_t* parent, int64_t* depth,
            int64_t* crossings) {
    try {
        LaneNesting found{parent, depth, 0, 0};
        if (!nest_lane(start, end, soft, count, found)) return 0;
        crossings[0] = found.improper;
        crossings[1] = found.worst;
        return 1;
    } catch (...) {
        return 0;
    }
}

int wl_climb(const int32_t* parent, const int32_t* forward, const uint8_t* stop, size_t rows, const int64_t* from,
             size_t count, int64_t* reached, uint8_t* crossed) {
    try {
        return climb({parent, forward, stop, rows}, from, count, reached, crossed);
    } catch (...) {
        return 0;
    }
}

int wl_simulate(const int64_t* first_edge, const int64_t* source, size_t nodes, const double* lag, const double* weight,
                size_t variants, double* times) {
    return simulate({first_edge, source, nodes}, lag, weight, variants, times);
}

size_t wl_without_numbers(const char* text, size_t size, char* out) { return without_numbers(text, size, out); }

wl_sequences* wl_sequences_new(const int64_t* code, const int64_t* sums_ns, size_t count,
                               const wl_sequence_limits* limits) {
    try {
        auto sequences = std::make_unique<wl_sequences>();
        const SequenceLimits known = {limits->lengths,    limits->length_count, limits->tried, limits->min_count,
                                      limits->max_length, limits->max_found,    limits->same};
        return find_sequences(code, sums_ns, count, known, sequences->found) ? sequences.release() : nullptr;
    } catch (...) {
        return nullptr;
    }
}

void wl_sequences_free(wl_sequences* sequences) { delete sequences; }

int wl_sequences_get(const wl_sequences* sequences, size_t number, wl_array* array) {
    const Sequences& found = sequences->found;
    const std::pair<const char*, const std::vector<int64_t>*> columns[] = {
        {"starts", &found.starts}, {"bounds", &found.bounds}, {"lengths", &found.lengths}, {"times_ns", &found.times_ns}};
    if (number >= sizeof columns / sizeof *columns) return 0;
    const auto& [name, column] = columns[number];
    *array = {name, "i8", column->data(), column->size() * sizeof(int64_t)};
    return 1;
}

// Events on their way into columns, in the reference's order.
//
// The reference decodes the text in pieces and adds each piece's timed events category by category, in the order in
// which the categories first appear in it; flows follow. Rows of equal times, names, lanes and specs are numbered by
// that order, so a piece is kept until it is whole.
#pragma once

#include <string>
#include <vector>

#include "event.h"
#include "intern.h"

namespace warplens {

// What the reference does with events of a category.
struct CategoryRule {
    uint8_t kind = 0;
    uint16_t parts = 0;  // a bit for each ArgField that is a column, and these:
    static constexpr uint16_t kSpec = 1 << kEventInts;
    static constexpr uint16_t kGeometry = 2 << kEventInts;
    static constexpr uint16_t kCollective = 4 << kEventInts;
};

struct Rules {
    std::vector<std::pair<std::string, CategoryRule>> categories;  // by name in lower case
    CategoryRule other;
    std::string own_prefix;  // of categories that are not events of the recorded program
    uint64_t piece_bytes = 0;
};

// What a file holds, once it is read.
struct Tables {
    Column<uint8_t> kind;
    Column<int32_t> name, lane, spec, geometry;
    Column<int64_t> start_ns, dur_ns, ints[kEventInts];
    Column<int64_t> copy_event, copy_bytes, collective_event, collective_entry;
    Column<uint8_t> flow_opens;
    Column<int32_t> flow_key, flow_lane;
    Column<int64_t> flow_ns;
    Column<int64_t> memory_ns, memory[kMemoryInts];
    Column<int32_t> memory_process, memory_thread;  // numbers of `identifiers`, as in `lane_process`
    Column<int32_t> lane_process, lane_thread;
    Column<int64_t> phase_count;
    Strings names, specs, geometries, identifiers, flow_keys, categories, phases;
    Column<char> rest_text, collective_text, sync_text;  // events for the reference to decode, each followed by a comma
};

class Pieces {
public:
    Pieces(const Rules& rules, uint64_t seed);

    // False where the reference has to take the file; `why` says what for.
    bool add(const Event& event);
    void flush();
    void finish();

    Tables tables;
    const char* why = "";

private:
    struct Timed {
        int64_t start_ns, dur_ns, bytes, ints[kEventInts];
        uint32_t name, lane, spec, geometry;
        int64_t collective;  // entry of the text, -1 for none
    };
    struct FlowEnd {
        int64_t ns;
        uint32_t key, lane;
        bool opens;
    };
    struct Category {
        CategoryRule rule;
        bool is_own = false, is_odd = false, is_listed = false;
        std::vector<Timed> members;  // of this piece
    };
    struct Remembered {  // the latest identifier: most events have the process and thread of the one before
        bool is_set = false;
        int64_t integer = 0;
        uint32_t code = 0;
    };

    bool odd(const char* reason);
    bool add_timed(const Event& event);
    bool add_flow_end(const Event& event);
    bool add_allocation(const Event& event);
    void count_phase(Span phase);
    Category& category_of(const Text& text);
    uint32_t identifier_code(const Identifier& identifier, Interner& interner);
    uint32_t remembered_code(const Identifier& identifier, Remembered& latest);
    uint32_t lane_of(const Event& event);
    uint32_t category_code(const Text& text);
    uint32_t spec_of(const Event& event);
    uint32_t geometry_of(const Event& event);
    void write_timed(const Category& category, const Timed& event);
    static void append_event(Column<char>& text, const Event& event);

    const Rules& rules_;
    Interner categories_, phases_, identifiers_, flow_keys_;
    OrderedInterner names_, lanes_, specs_, geometries_;
    std::vector<Category> category_list_;
    std::vector<uint32_t> piece_categories_;
    std::vector<FlowEnd> piece_flows_;
    int64_t collectives_ = 0;
    Remembered process_, thread_;
    uint32_t latest_lane_key_[2] = {UINT32_MAX, UINT32_MAX}, latest_lane_ = 0, latest_category_ = 0;
    std::string scratch_, key_;
};

}  // namespace warplens

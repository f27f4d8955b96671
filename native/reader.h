// The text in chunks → the events of its array.
#pragma once

#include "pieces.h"

namespace warplens {

enum class State { kReading = 0, kClosed = 1, kHandedOver = 2 };

class Reader {
public:
    Reader(Rules rules, uint64_t seed);

    // More of the text, from behind the array's opening bracket on.
    State feed(const char* text, size_t size);
    // No more text: the tables are whole, or the reference has to take the file.
    State finish();

    // What was fed from the closing bracket on.
    Span tail() const { return {buffer_.data() + at_, filled_ - at_}; }
    const Tables& tables() const { return pieces_.tables; }
    const char* why() const { return why_; }
    uint64_t odd_at() const { return passed_ + at_; }

private:
    enum class Next { kEventOrEnd, kEvent, kCommaOrEnd };

    void append(const char* text, size_t size);
    void parse();
    bool step(Cursor& text);
    bool take_whole_event(Cursor& text);
    void stop(const Cursor& text);

    Rules rules_;
    Pieces pieces_;
    Learned learned_;
    std::vector<char> buffer_;
    size_t filled_ = 0;
    size_t at_ = 0;        // in the buffer: all before is done with
    uint64_t passed_ = 0;  // bytes of the text before the buffer
    size_t wanted_ = 0;    // bytes that must be there before the next attempt
    Next next_ = Next::kEventOrEnd;
    State state_ = State::kReading;
    uint64_t piece_start_ = 0;
    uint64_t latest_end_ = 0;  // of the brace that closes the latest event
    const char* why_ = "";
};

}  // namespace warplens

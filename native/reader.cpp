#include "reader.h"

#include <algorithm>

namespace warplens {

Reader::Reader(Rules rules, uint64_t seed) : rules_(std::move(rules)), pieces_(rules_, seed) {}

State Reader::feed(const char* text, size_t size) {
    if (state_ == State::kHandedOver) return state_;
    append(text, size);
    if (state_ == State::kReading && filled_ - at_ >= wanted_) parse();
    return state_;
}

State Reader::finish() {
    if (state_ == State::kReading && wanted_ > 0) parse();
    if (state_ == State::kReading) {
        state_ = State::kHandedOver;
        why_ = "the text ends before the array does";
    }
    if (state_ == State::kClosed) pieces_.finish();
    return state_;
}

// What is done with makes room; the rest, less than an event, moves to the front.
void Reader::append(const char* text, size_t size) {
    if (state_ == State::kReading && at_ > 0) {
        std::memmove(buffer_.data(), buffer_.data() + at_, filled_ - at_);
        passed_ += at_;
        filled_ -= at_;
        at_ = 0;
    }
    if (buffer_.size() < filled_ + size + kPadding) {
        buffer_.resize(std::max(filled_ + size + kPadding, filled_ > size ? buffer_.size() * 2 : size_t{0}));
    }
    if (size > 0) std::memcpy(buffer_.data() + filled_, text, size);
    filled_ += size;
    std::memset(buffer_.data() + filled_, 0, kPadding);
}

void Reader::parse() {
    Cursor text{buffer_.data() + at_, buffer_.data() + filled_};
    wanted_ = 0;
    while (state_ == State::kReading && step(text)) at_ = static_cast<size_t>(text.at - buffer_.data());
    if (state_ == State::kReading) stop(text);
}

// One step through the array: an event, the comma behind it, or the bracket that closes it.
bool Reader::step(Cursor& text) {
    text.skip_space();
    at_ = static_cast<size_t>(text.at - buffer_.data());  // gigabytes of white space are not kept
    if (*text.at == ']' && next_ != Next::kEvent) {
        state_ = State::kClosed;
        return true;
    }
    if (next_ == Next::kCommaOrEnd) {
        if (!text.take(',')) return false;
        next_ = Next::kEvent;
        return true;
    }
    if (*text.at != '{') return false;
    return take_whole_event(text);
}

bool Reader::take_whole_event(Cursor& text) {
    const uint64_t start = passed_ + static_cast<uint64_t>(text.at - buffer_.data());
    // The reference cuts where, from so many bytes on, one event ends and another begins.
    if (next_ == Next::kEvent && latest_end_ >= piece_start_ + rules_.piece_bytes) {
        pieces_.flush();
        piece_start_ = start;
        latest_end_ = 0;
    }
    Event event;
    if (!take_event(text, event, learned_)) return false;
    if (!pieces_.add(event)) {
        text.odd(event.whole.begin, pieces_.why);
        return false;
    }
    latest_end_ = start + event.whole.size - 1;
    next_ = Next::kCommaOrEnd;
    return true;
}

// At the text's end more of it decides. An event of many megabytes is tried again only when twice as much of it is
// there, or trying would take time by the square of its size.
void Reader::stop(const Cursor& text) {
    if (text.at == text.end) {
        wanted_ = (filled_ - at_) * 2;
        return;
    }
    state_ = State::kHandedOver;
    why_ = text.why;
    at_ = static_cast<size_t>(text.at - buffer_.data());
}

}  // namespace warplens

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <limits>

#include "json.hpp"

namespace warplens {

Json::Json(bool value) : kind(Kind::boolean), boolean(value) {}
Json::Json(std::int64_t value) : kind(Kind::integer), integer(value), text(std::to_string(value)) {}
Json::Json(std::string value) : kind(Kind::text), text(std::move(value)) {}

Json::Json(double value) : kind(Kind::real), real(value) {
  // JSON has no words for these; plans and results write them as texts.
  if (!std::isfinite(value)) {
    kind = Kind::text;
    text = std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
  } else {
    text = number_text(value);
  }
}

Json Json::of(Kind kind) {
  Json made;
  made.kind = kind;
  return made;
}

const Json* Json::find(std::string_view name) const {
  // The last of two members with one name counts, as it does in Python.
  for (auto member = members.rbegin(); member != members.rend(); ++member)
    if (member->first == name) return &member->second;
  return nullptr;
}

Json& Json::set(std::string name, Json value) {
  for (auto& [known, old] : members)
    if (known == name) {
      old = std::move(value);
      return *this;
    }
  members.emplace_back(std::move(name), std::move(value));
  return *this;
}

namespace {

// Deep enough for any plan or trace, and far from the end of the stack.
constexpr int max_depth = 200;
constexpr auto least = std::numeric_limits<std::int64_t>::min(), most = std::numeric_limits<std::int64_t>::max();

class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  Json document() {
    Json value = any(0);
    space();
    if (at_ != text_.size()) fail("something after the end");
    return value;
  }

 private:
  [[noreturn]] void fail(const char* what) const {
    throw FormatError("not JSON: " + std::string(what) + " at byte " + std::to_string(at_));
  }

  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }

  void space() {
    at_ = std::min(text_.find_first_not_of(" \n\t\r", at_), text_.size());
  }

  bool take(char wanted) {
    space();
    if (peek() != wanted || at_ >= text_.size()) return false;
    ++at_;
    return true;
  }

  bool word(std::string_view wanted) {
    if (text_.substr(at_, wanted.size()) != wanted) return false;
    at_ += wanted.size();
    return true;
  }

  Json any(int depth) {
    if (depth > max_depth) fail("nested too deeply");
    space();
    switch (peek()) {
      case '{': return object(depth);
      case '[': return list(depth);
      case '"': return Json(string());
      default: break;
    }
    if (word("true")) return Json(true);
    if (word("false")) return Json(false);
    if (word("null")) return Json();
    return number();
  }

  Json object(int depth) {
    ++at_;
    Json made = Json::object();
    if (take('}')) return made;
    do {
      space();
      if (peek() != '"') fail("a name was expected");
      std::string name = string();
      if (!take(':')) fail("':' was expected");
      made.members.emplace_back(std::move(name), any(depth + 1));
    } while (take(','));
    if (!take('}')) fail("'}' was expected");
    return made;
  }

  Json list(int depth) {
    ++at_;
    Json made = Json::list();
    if (take(']')) return made;
    do made.items.push_back(any(depth + 1));
    while (take(','));
    if (!take(']')) fail("']' was expected");
    return made;
  }

  Json number() {
    const std::size_t start = at_;
    bool whole = true;
    if (peek() == '-') ++at_;
    if (peek() < '0' || peek() > '9') fail("no value");
    while (true) {
      const char letter = peek();
      if (letter >= '0' && letter <= '9') {
        ++at_;
      } else if (letter == '.' || letter == 'e' || letter == 'E' || letter == '+' || letter == '-') {
        whole = false;
        ++at_;
      } else {
        break;
      }
    }
    const std::string_view digits = text_.substr(start, at_ - start);
    Json made;
    made.text = std::string(digits);
    const char* end = digits.data() + digits.size();
    if (whole) {
      made.kind = Json::Kind::integer;
      const auto read = std::from_chars(digits.data(), end, made.integer);
      if (read.ec == std::errc::result_out_of_range)
        made.integer = digits[0] == '-' ? least : most;
      else if (read.ec != std::errc() || read.ptr != end)
        fail("a bad number");
      if (digits == "-0") made.text = "0";
    } else {
      made.kind = Json::Kind::real;
      const auto read = std::from_chars(digits.data(), end, made.real);
      if (read.ec == std::errc::result_out_of_range)
        made.real = std::strtod(made.text.c_str(), nullptr);
      else if (read.ec != std::errc() || read.ptr != end)
        fail("a bad number");
    }
    return made;
  }

  std::string string() {
    ++at_;
    std::string made;
    while (true) {
      if (at_ >= text_.size()) fail("a text without an end");
      const char letter = text_[at_++];
      if (letter == '"') return made;
      if (static_cast<unsigned char>(letter) < 0x20) fail("a control character in a text");
      if (letter != '\\') {
        made += letter;
        continue;
      }
      escape(made);
    }
  }

  void escape(std::string& made) {
    if (at_ >= text_.size()) fail("a text without an end");
    switch (text_[at_++]) {
      case '"': made += '"'; return;
      case '\\': made += '\\'; return;
      case '/': made += '/'; return;
      case 'b': made += '\b'; return;
      case 'f': made += '\f'; return;
      case 'n': made += '\n'; return;
      case 'r': made += '\r'; return;
      case 't': made += '\t'; return;
      case 'u': break;
      default: fail("an unknown escape");
    }
    std::uint32_t point = four_digits();
    const bool high = point >= 0xD800 && point < 0xDC00;
    if (high && text_.substr(at_, 2) == "\\u") {
      const std::size_t before = at_;
      at_ += 2;
      const std::uint32_t low = four_digits();
      if (low >= 0xDC00 && low < 0xE000)
        point = 0x10000 + ((point - 0xD800) << 10) + (low - 0xDC00);
      else
        at_ = before;
    }
    append_utf8(made, point);
  }

  std::uint32_t four_digits() {
    std::uint32_t point = 0;
    const std::string_view digits = text_.substr(at_, 4);
    const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), point, 16);
    if (digits.size() != 4 || read.ec != std::errc() || read.ptr != digits.data() + 4) fail("a bad \\u");
    at_ += 4;
    return point;
  }

  static void append_utf8(std::string& made, std::uint32_t point) {
    const auto tail = [&](int shift) { made += static_cast<char>(0x80 | ((point >> shift) & 0x3F)); };
    if (point < 0x80) {
      made += static_cast<char>(point);
    } else if (point < 0x800) {
      made += static_cast<char>(0xC0 | (point >> 6));
      tail(0);
    } else if (point < 0x10000) {
      made += static_cast<char>(0xE0 | (point >> 12));
      tail(6);
      tail(0);
    } else {
      made += static_cast<char>(0xF0 | (point >> 18));
      tail(12);
      tail(6);
      tail(0);
    }
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace

Json parse_json(std::string_view text) { return Reader(text).document(); }

Json read_json_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw FormatError(path + ": cannot be read");
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  if (file.bad()) throw FormatError(path + ": cannot be read");
  try {
    return parse_json(text);
  } catch (const FormatError& error) {
    throw FormatError(path + ": " + error.what());
  }
}

}  // namespace warplens

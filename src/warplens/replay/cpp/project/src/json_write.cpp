#include <algorithm>
#include <charconv>
#include <cstdlib>

#include "json.hpp"

namespace warplens {

std::string python_float(double value) {
  // The shortest digits that read back as the same number, laid out by Python's rule: an exponent under -4 or from 16.
  char buffer[64];
  const auto written = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::scientific);
  const std::string text(buffer, written.ptr);
  const std::size_t mark = text.find('e');
  const int exponent = std::atoi(text.c_str() + mark + 1);
  const bool negative = text[0] == '-';
  std::string digits;
  for (const char letter : text.substr(0, mark))
    if (letter >= '0' && letter <= '9') digits += letter;
  std::string made = negative ? "-" : "";
  if (exponent < -4 || exponent >= 16) {
    made += digits.substr(0, 1);
    if (digits.size() > 1) made += "." + digits.substr(1);
    const std::string size = std::to_string(std::abs(exponent));
    return made + "e" + (exponent < 0 ? "-" : "+") + (size.size() < 2 ? "0" : "") + size;
  }
  if (exponent < 0) return made + "0." + std::string(static_cast<std::size_t>(-exponent - 1), '0') + digits;
  const auto before = static_cast<std::size_t>(exponent + 1);
  if (digits.size() <= before) return made + digits + std::string(before - digits.size(), '0') + ".0";
  return made + digits.substr(0, before) + "." + digits.substr(before);
}

namespace {

void append_hex(std::string& out, std::uint32_t unit) {
  constexpr char digits[] = "0123456789abcdef";
  out += "\\u";
  for (int shift = 12; shift >= 0; shift -= 4) out += digits[(unit >> shift) & 0xF];
}

// Returns true where the letter needs a backslash in any JSON.
bool append_escape(std::string& out, unsigned char letter) {
  switch (letter) {
    case '"': out += "\\\""; return true;
    case '\\': out += "\\\\"; return true;
    case '\n': out += "\\n"; return true;
    case '\r': out += "\\r"; return true;
    case '\t': out += "\\t"; return true;
    case '\b': out += "\\b"; return true;
    case '\f': out += "\\f"; return true;
    default: break;
  }
  if (letter >= 0x20) return false;
  append_hex(out, letter);
  return true;
}

// The code point that starts at `at`, which moves behind it; a byte that is no UTF-8 stands for itself.
std::uint32_t next_point(const std::string& text, std::size_t& at) {
  const auto byte = [&](std::size_t place) -> std::uint32_t { return static_cast<unsigned char>(text[place]); };
  const std::uint32_t first = byte(at++);
  const int tails = first >= 0xF0 ? 3 : first >= 0xE0 ? 2 : first >= 0xC0 ? 1 : 0;
  if (tails == 0 || at + static_cast<std::size_t>(tails) > text.size()) return first;
  std::uint32_t point = first & (0x3Fu >> tails);
  for (int tail = 0; tail < tails; ++tail) point = (point << 6) | (byte(at++) & 0x3F);
  return point;
}

void append_string(std::string& out, const std::string& text, bool ascii) {
  out += '"';
  for (std::size_t at = 0; at < text.size();) {
    const auto letter = static_cast<unsigned char>(text[at]);
    if (append_escape(out, letter)) {
      ++at;
    } else if (!ascii || letter < 0x7F) {
      out += text[at++];
    } else {
      const std::uint32_t point = next_point(text, at);
      if (point == 0x7F) {
        out += '\x7f';
      } else if (point < 0x10000) {
        append_hex(out, point);
      } else {
        append_hex(out, 0xD800 + ((point - 0x10000) >> 10));
        append_hex(out, 0xDC00 + ((point - 0x10000) & 0x3FF));
      }
    }
  }
  out += '"';
}

struct Layout {
  bool indent = false;
  bool sorted_ascii = false;
};

void append_value(std::string& out, const Json& value, const Layout& layout, int depth);

void append_break(std::string& out, const Layout& layout, int depth) {
  if (!layout.indent) return;
  out += '\n';
  out.append(static_cast<std::size_t>(depth), ' ');
}

void append_members(std::string& out, const Json& value, const Layout& layout, int depth) {
  std::vector<const std::pair<std::string, Json>*> order;
  for (const auto& member : value.members) order.push_back(&member);
  if (layout.sorted_ascii) {
    std::stable_sort(order.begin(), order.end(), [](const auto* a, const auto* b) { return a->first < b->first; });
    // Of members with one name only the last counts.
    std::vector<const std::pair<std::string, Json>*> last;
    for (const auto* each : order) {
      if (!last.empty() && last.back()->first == each->first) last.pop_back();
      last.push_back(each);
    }
    order.swap(last);
  }
  bool first = true;
  for (const auto* member : order) {
    if (!first) out += layout.indent ? "," : ", ";
    first = false;
    append_break(out, layout, depth + 1);
    append_string(out, member->first, layout.sorted_ascii);
    out += ": ";
    append_value(out, member->second, layout, depth + 1);
  }
  if (!first) append_break(out, layout, depth);
}

void append_value(std::string& out, const Json& value, const Layout& layout, int depth) {
  switch (value.kind) {
    case Json::Kind::null: out += "null"; return;
    case Json::Kind::boolean: out += value.boolean ? "true" : "false"; return;
    case Json::Kind::integer: out += value.text; return;
    case Json::Kind::real: out += python_float(value.real); return;
    case Json::Kind::text: append_string(out, value.text, layout.sorted_ascii); return;
    case Json::Kind::object:
      out += '{';
      append_members(out, value, layout, depth);
      out += '}';
      return;
    case Json::Kind::list: break;
  }
  out += '[';
  bool first = true;
  for (const Json& item : value.items) {
    if (!first) out += layout.indent ? "," : ", ";
    first = false;
    append_break(out, layout, depth + 1);
    append_value(out, item, layout, depth + 1);
  }
  if (!first) append_break(out, layout, depth);
  out += ']';
}

}  // namespace

std::string write_json(const Json& value, bool indent) {
  std::string out;
  append_value(out, value, {.indent = indent}, 0);
  return out;
}

std::string write_sorted_ascii(const Json& value) {
  std::string out;
  append_value(out, value, {.sorted_ascii = true}, 0);
  return out;
}

}  // namespace warplens

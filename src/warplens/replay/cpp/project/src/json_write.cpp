#include <charconv>

#include "json.hpp"

namespace warplens {

std::string number_text(double value) {
  char buffer[64];
  const auto written = std::to_chars(buffer, buffer + sizeof buffer, value);
  std::string text(buffer, written.ptr);
  // Readers must see a real number, not an integer.
  if (text.find_first_not_of("-0123456789") == std::string::npos) text += ".0";
  return text;
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

void append_string(std::string& out, const std::string& text) {
  out += '"';
  for (const char letter : text)
    if (!append_escape(out, static_cast<unsigned char>(letter))) out += letter;
  out += '"';
}

void append_value(std::string& out, const Json& value, bool indent, int depth);

void append_break(std::string& out, bool indent, int depth) {
  if (!indent) return;
  out += '\n';
  out.append(static_cast<std::size_t>(depth), ' ');
}

void append_members(std::string& out, const Json& value, bool indent, int depth) {
  bool first = true;
  for (const auto& [name, member] : value.members) {
    if (!first) out += indent ? "," : ", ";
    first = false;
    append_break(out, indent, depth + 1);
    append_string(out, name);
    out += ": ";
    append_value(out, member, indent, depth + 1);
  }
  if (!first) append_break(out, indent, depth);
}

void append_value(std::string& out, const Json& value, bool indent, int depth) {
  switch (value.kind) {
    case Json::Kind::null: out += "null"; return;
    case Json::Kind::boolean: out += value.boolean ? "true" : "false"; return;
    case Json::Kind::integer: out += value.text; return;
    case Json::Kind::real: out += number_text(value.real); return;
    case Json::Kind::text: append_string(out, value.text); return;
    case Json::Kind::object:
      out += '{';
      append_members(out, value, indent, depth);
      out += '}';
      return;
    case Json::Kind::list: break;
  }
  out += '[';
  bool first = true;
  for (const Json& item : value.items) {
    if (!first) out += indent ? "," : ", ";
    first = false;
    append_break(out, indent, depth + 1);
    append_value(out, item, indent, depth + 1);
  }
  if (!first) append_break(out, indent, depth);
  out += ']';
}

}  // namespace

std::string write_json(const Json& value, bool indent) {
  std::string out;
  append_value(out, value, indent, 0);
  return out;
}

}  // namespace warplens

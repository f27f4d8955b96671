// JSON values, read and written; numbers keep the words they were written with.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace warplens {

struct FormatError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct Json {
  enum class Kind { null, boolean, integer, real, text, list, object };

  Kind kind = Kind::null;
  bool boolean = false;
  std::int64_t integer = 0;
  double real = 0;
  std::string text;  // of a text, or a number's own digits
  std::vector<Json> items;
  std::vector<std::pair<std::string, Json>> members;

  Json() = default;
  Json(bool value);
  Json(std::int64_t value);
  Json(int value) : Json(static_cast<std::int64_t>(value)) {}
  Json(double value);
  Json(std::string value);
  Json(const char* value) : Json(std::string(value)) {}

  static Json list() { return of(Kind::list); }
  static Json object() { return of(Kind::object); }

  bool is(Kind wanted) const { return kind == wanted; }
  bool is_number() const { return kind == Kind::integer || kind == Kind::real; }
  // The member of that name, or null where there is none.
  const Json* find(std::string_view name) const;
  Json& set(std::string name, Json value);
  void add(Json value) { items.push_back(std::move(value)); }
  double number() const { return kind == Kind::integer ? static_cast<double>(integer) : real; }

 private:
  static Json of(Kind kind);
};

Json parse_json(std::string_view text);
Json read_json_file(const std::string& path);

// For people: one space of indent per level. On one line where `indent` is false.
std::string write_json(const Json& value, bool indent = true);
// The shortest digits that read back as the same number.
std::string number_text(double value);

}  // namespace warplens

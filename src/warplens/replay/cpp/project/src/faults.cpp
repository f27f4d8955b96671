#include "faults.hpp"

#include <sstream>

namespace warplens {

std::string one_line(const std::string& text) {
  constexpr std::size_t most = 240;
  std::stringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t start = line.find_first_not_of(" \t\r");
    if (start == std::string::npos) continue;
    line = line.substr(start, line.find_last_not_of(" \t\r") - start + 1);
    if (line.size() <= most) return line;
    std::size_t end = most;
    while (end > 0 && (static_cast<unsigned char>(line[end]) & 0xC0) == 0x80) --end;
    return line.substr(0, end) + "…";
  }
  return "it failed without a message";
}

}  // namespace warplens

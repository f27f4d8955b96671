// A process of this same program, with a pipe to it and one from it.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

namespace warplens {

inline constexpr const char* killed = "was killed, as the system does where memory runs out";

class Child {
 public:
  Child(const std::vector<std::string>& words, const std::string& input);
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  enum class Read { line, end, silence, interrupted };
  // The next line it writes; `silence` after that many seconds without one.
  Read read(std::string& line, double seconds);
  void kill();
  // How it ended, in the words of Python's runner.
  std::string wait();

 private:
  pid_t pid_ = -1;
  int from_ = -1;
  std::string buffer_;
};

// Ctrl-C was pressed.
bool is_interrupted();
void watch_for_interrupts();

}  // namespace warplens

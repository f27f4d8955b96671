#include "child.hpp"

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>

#include "worker.hpp"

namespace warplens {
namespace {

volatile sig_atomic_t interrupted = 0;

void on_interrupt(int) { interrupted = 1; }

std::string signal_name(int number) {
  switch (number) {
    case SIGSEGV: return "SIGSEGV";
    case SIGABRT: return "SIGABRT";
    case SIGBUS: return "SIGBUS";
    case SIGFPE: return "SIGFPE";
    case SIGILL: return "SIGILL";
    default: return "signal " + std::to_string(number);
  }
}

[[noreturn]] void become(const std::vector<std::string>& words, int input, int output) {
  // Whatever happens to the one that started it, no worker stays behind on the GPU.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  dup2(input, STDIN_FILENO);
  dup2(output, report_descriptor);
  dup2(STDERR_FILENO, STDOUT_FILENO);  // standard output is for the result alone
  std::vector<char*> pointers;
  for (const std::string& word : words) pointers.push_back(const_cast<char*>(word.c_str()));
  pointers.push_back(nullptr);
  execv("/proc/self/exe", pointers.data());
  std::perror("cannot start a worker");
  _exit(127);
}

// The list of units may be larger than a pipe's buffer: it is passed through an unnamed file.
int file_with(const std::string& text) {
  std::FILE* file = std::tmpfile();
  if (file == nullptr) throw std::runtime_error("no temporary file can be made");
  std::fwrite(text.data(), 1, text.size(), file);
  std::fflush(file);
  const int descriptor = dup(fileno(file));
  std::fclose(file);
  lseek(descriptor, 0, SEEK_SET);
  return descriptor;
}

}  // namespace

bool is_interrupted() { return interrupted != 0; }

void watch_for_interrupts() {
  struct sigaction action {};
  action.sa_handler = on_interrupt;  // without SA_RESTART, so that waiting ends at once
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

Child::Child(const std::vector<std::string>& words, const std::string& input) {
  const int given = file_with(input);
  int ends[2];
  if (pipe(ends) != 0) throw std::runtime_error("no pipe can be made");
  pid_ = fork();
  if (pid_ == 0) become(words, given, ends[1]);
  close(given);
  close(ends[1]);
  from_ = ends[0];
  if (pid_ < 0) throw std::runtime_error("no process can be started");
}

Child::~Child() {
  if (pid_ > 0) {
    kill();
    wait();
  }
  if (from_ >= 0) close(from_);
}

Child::Read Child::read(std::string& line, double seconds) {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  while (true) {
    const std::size_t newline = buffer_.find('\n');
    if (newline != std::string::npos) {
      line = buffer_.substr(0, newline);
      buffer_.erase(0, newline + 1);
      return Read::line;
    }
    if (is_interrupted()) return Read::interrupted;
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now()).count();
    if (left <= 0) return Read::silence;
    pollfd waited{from_, POLLIN, 0};
    if (poll(&waited, 1, static_cast<int>(left)) <= 0) continue;
    char bytes[4096];
    const ssize_t count = ::read(from_, bytes, sizeof bytes);
    if (count == 0 || (count < 0 && errno != EINTR)) return Read::end;
    if (count > 0) buffer_.append(bytes, static_cast<std::size_t>(count));
  }
}

void Child::kill() {
  if (pid_ > 0) ::kill(pid_, SIGKILL);
}

std::string Child::wait() {
  int status = 0;
  while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
  if (!WIFSIGNALED(status)) return "ended with status " + std::to_string(WEXITSTATUS(status));
  if (WTERMSIG(status) == SIGKILL) return killed;
  return "was ended by " + signal_name(WTERMSIG(status));
}

}  // namespace warplens

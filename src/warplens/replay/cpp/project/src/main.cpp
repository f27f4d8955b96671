// Runs a replay plan: each unit alone, in a process that may die, with its kernels compared with the trace's.
#include <limits.h>
#include <unistd.h>

#include <cstdlib>
#include <iostream>

#include "json.hpp"
#include "supervisor.hpp"
#include "worker.hpp"

namespace {

std::string beside_the_program(const std::string& name) {
  char path[PATH_MAX] = {};
  const ssize_t size = readlink("/proc/self/exe", path, sizeof path - 1);
  const std::string whole = size > 0 ? std::string(path, static_cast<std::size_t>(size)) : std::string();
  return whole.substr(0, whole.rfind('/') + 1) + name;
}

}  // namespace

int main(int count, char** words) {
  try {
    bool help = false;
    warplens::Options options = warplens::parse_options(count, words, help);
    if (help) {
      std::cout << warplens::usage();
      return 0;
    }
    if (options.plan.empty()) options.plan = beside_the_program("../plan.json");
    if (options.device.empty()) options.device = "cuda:0";
    if (options.worker) return warplens::run_worker(options);
    setenv("KINETO_LOG_LEVEL", "5", 0);  // the profiler's own log is not useful here
    return warplens::supervise(options);
  } catch (const warplens::UsageError& error) {
    std::cerr << "replay: " << error.what() << "\n\nsee: replay --help\n";
    return 2;
  } catch (const std::exception& error) {
    std::cerr << "replay: " << error.what() << "\n";
    return 1;
  }
}

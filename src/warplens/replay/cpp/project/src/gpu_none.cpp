// For PyTorch wheels without CUDA.
#include "faults.hpp"
#include "gpu.hpp"

namespace warplens {

int gpu_count() { return 0; }
GpuFacts gpu_open(int) { throw BadUnit("this build has no CUDA: it runs with --device cpu"); }
std::int64_t gpu_free_bytes() { return 0; }
void gpu_give_back_memory() {}
void gpu_synchronize() {}
std::string gpu_is_broken() { return ""; }
std::unique_ptr<TimedLoop> make_loop(std::function<void()>, std::vector<std::function<void()>>, double, std::string&) {
  throw BadUnit("this build has no CUDA");
}

}  // namespace warplens

// For PyTorch wheels with CUDA.
#include <ATen/cuda/CUDAContext.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cmath>
#include <deque>

#include "faults.hpp"
#include "gpu.hpp"

namespace warplens {
namespace {

void check(cudaError_t error) {
  if (error != cudaSuccess) throw std::runtime_error(std::string("CUDA: ") + cudaGetErrorString(error));
}

class Event {
 public:
  explicit Event(bool timed) {
    check(cudaEventCreateWithFlags(&event_, timed ? cudaEventDefault : cudaEventDisableTiming));
  }
  ~Event() { cudaEventDestroy(event_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  void record(cudaStream_t stream) { check(cudaEventRecord(event_, stream)); }
  bool is_done() const {
    const cudaError_t found = cudaEventQuery(event_);
    if (found == cudaErrorNotReady) return false;
    check(found);
    return true;
  }
  double ns_until(const Event& later) const {
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, event_, later.event_));
    return static_cast<double>(milliseconds) * 1e6;
  }

 private:
  cudaEvent_t event_ = nullptr;
};

class CallLoop : public TimedLoop {
 public:
  CallLoop(std::function<void()> before, std::vector<std::function<void()>> calls)
      : stream_(c10::cuda::getStreamFromPool(true)), before_(std::move(before)), calls_(std::move(calls)) {}

  // False, with the reason, where the calls cannot be captured; then they are made one by one.
  bool capture(std::string& why_not) {
    c10::cuda::CUDAStreamGuard guard(stream_);
    auto graph = std::make_unique<at::cuda::CUDAGraph>();
    try {
      // What a first call on a stream sets up must not be captured.
      for (std::size_t call = 0; call < std::min(warm_calls, calls_.size()); ++call) calls_[call]();
      stream_.synchronize();
      graph->capture_begin({0, 0}, cudaStreamCaptureModeThreadLocal);
      for (const auto& call : calls_) call();
      graph->capture_end();
      graph->replay();
      stream_.synchronize();
    } catch (const std::exception& error) {
      why_not = one_line(error.what());
      end_capture(*graph);
      return false;
    }
    graph_ = std::move(graph);
    return true;
  }

  int calls() const override {
    return static_cast<int>(graph_ != nullptr ? calls_.size() : std::min(most_plain_calls, calls_.size()));
  }

  void launch() override {
    c10::cuda::CUDAStreamGuard guard(stream_);
    reset_if_due();
    run();
    if (spare_.empty()) spare_.push_back(std::make_unique<Event>(false));
    in_flight_.push_back(std::move(spare_.back()));
    spare_.pop_back();
    in_flight_.back()->record(stream_);
  }

  std::int64_t completed() override {
    while (!in_flight_.empty() && in_flight_.front()->is_done()) {
      spare_.push_back(std::move(in_flight_.front()));
      in_flight_.pop_front();
      ++completed_;
    }
    return completed_;
  }

  void synchronize() override { stream_.synchronize(); }

  double replay_ns() override {
    c10::cuda::CUDAStreamGuard guard(stream_);
    reset_if_due();
    start_.record(stream_);
    run();
    end_.record(stream_);
    stream_.synchronize();
    return start_.ns_until(end_);
  }

  // Setting back may take a small share of the time; where it takes more, it is done less often.
  void plan_resets(double replay_ns) {
    c10::cuda::CUDAStreamGuard guard(stream_);
    before_();
    start_.record(stream_);
    before_();
    end_.record(stream_);
    stream_.synchronize();
    const double share = start_.ns_until(end_) / (reset_share * replay_ns);
    reset_every_ = std::max<std::int64_t>(1, static_cast<std::int64_t>(std::ceil(share)));
  }

 private:
  static constexpr double reset_share = 0.01;
  static constexpr std::size_t warm_calls = 32;
  static constexpr std::size_t most_plain_calls = 50;

  void reset_if_due() {
    if (launched_++ % reset_every_ == 0) before_();
  }

  void run() {
    if (graph_ != nullptr) {
      graph_->replay();
    } else {
      for (int call = 0; call < calls(); ++call) calls_[static_cast<std::size_t>(call)]();
    }
  }

  // A capture that broke off must be ended, or nothing on this stream works any more.
  void end_capture(at::cuda::CUDAGraph& graph) {
    try {
      graph.capture_end();
    } catch (const std::exception&) {
      cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
      if (cudaStreamIsCapturing(stream_, &status) == cudaSuccess && status != cudaStreamCaptureStatusNone) {
        cudaGraph_t broken = nullptr;
        cudaStreamEndCapture(stream_, &broken);
        if (broken != nullptr) cudaGraphDestroy(broken);
      }
    }
    cudaGetLastError();
  }

  c10::cuda::CUDAStream stream_;
  std::function<void()> before_;
  std::vector<std::function<void()>> calls_;
  std::unique_ptr<at::cuda::CUDAGraph> graph_;
  Event start_{true}, end_{true};
  std::deque<std::unique_ptr<Event>> in_flight_;
  std::vector<std::unique_ptr<Event>> spare_;
  std::int64_t completed_ = 0, launched_ = 0, reset_every_ = 1;
};

}  // namespace

int gpu_count() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess ? count : 0;
}

GpuFacts gpu_open(int index) {
  if (gpu_count() == 0) throw BadUnit("CUDA sees no GPU; --device cpu runs the plan without one");
  if (index >= gpu_count())
    throw BadUnit("no cuda:" + std::to_string(index) + ": CUDA sees " + std::to_string(gpu_count()));
  at::globalContext().lazyInitDevice(c10::DeviceType::CUDA);
  c10::cuda::set_device(static_cast<c10::DeviceIndex>(index));
  check(cudaFree(nullptr));
  cudaDeviceProp facts{};
  check(cudaGetDeviceProperties(&facts, index));
  char pci[32] = {};
  check(cudaDeviceGetPCIBusId(pci, sizeof pci, index));
  // PyTorch's runner takes this too if a GPU does not report the size of its cache.
  constexpr std::int64_t default_cache_bytes = 64 << 20;
  return {facts.name, pci, facts.l2CacheSize > 0 ? facts.l2CacheSize : default_cache_bytes};
}

std::int64_t gpu_free_bytes() {
  std::size_t free = 0, total = 0;
  check(cudaMemGetInfo(&free, &total));
  return static_cast<std::int64_t>(free);
}

void gpu_give_back_memory() { c10::cuda::CUDACachingAllocator::emptyCache(); }

void gpu_synchronize() { check(cudaDeviceSynchronize()); }

std::string gpu_is_broken() {
  const cudaError_t found = cudaDeviceSynchronize();
  cudaGetLastError();
  // An error that stays is one the context does not recover from.
  if (found == cudaSuccess || cudaDeviceSynchronize() == cudaSuccess) return "";
  return cudaGetErrorString(found);
}

std::unique_ptr<TimedLoop> make_loop(std::function<void()> before, std::vector<std::function<void()>> calls,
                                     double call_ns, std::string& why_not) {
  gpu_synchronize();
  auto loop = std::make_unique<CallLoop>(std::move(before), std::move(calls));
  loop->capture(why_not);
  loop->plan_resets(call_ns * loop->calls());
  return loop;
}

}  // namespace warplens

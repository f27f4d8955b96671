// The energy of one call: a loop of calls that never pauses, and the counter's ticks as the marks between its repeats.
#pragma once

#include <functional>
#include <vector>

#include "nvml.hpp"
#include "result.hpp"

namespace warplens {

// Work that can be repeated without end; one replay is `calls` calls, enqueued and not waited for.
class Loop {
 public:
  virtual ~Loop() = default;
  virtual int calls() const = 0;
  virtual void launch() = 0;
  virtual std::int64_t completed() = 0;  // replays finished so far
  virtual void synchronize() = 0;
};

// The meter with its GPU's idle power; the caller keeps a context alive and the GPU idle.
MeterFacts measure_idle(const Nvml& nvml, double seconds);
// `busy_ns`: how long the kernels of one call take.
Energy measure_loop(Loop& loop, const Nvml& nvml, const MeterFacts& meter, double busy_ns, double seconds);

}  // namespace warplens

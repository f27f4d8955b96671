// NVIDIA's management library, loaded from the driver if present; only read, never used to change a setting.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "result.hpp"

namespace warplens {

class Nvml {
 public:
  // Of the GPU with that PCI address; null, with the reason, where it cannot be asked.
  static std::unique_ptr<Nvml> open(const std::string& pci, std::string& why_not);
  ~Nvml();
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  std::string gpu() const;
  std::optional<double> joules() const;  // since some moment that stays the same
  std::optional<double> watts() const;   // at this moment, not a second's average
  State state() const;

 private:
  struct Functions;
  Nvml() = default;
  std::unique_ptr<Functions> functions_;
  void* device_ = nullptr;
};

}  // namespace warplens

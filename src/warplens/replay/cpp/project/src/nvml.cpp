#include "nvml.hpp"

#include <dlfcn.h>

#include <array>
#include <utility>

namespace warplens {

// Of nvml.h, whose ABI is stable; declared here so that no CUDA toolkit is needed to build.
namespace nvml_abi {

using Return = int;
using Device = void*;
constexpr Return success = 0;
constexpr unsigned clock_sm = 1, clock_memory = 2;
constexpr unsigned temperature_gpu = 0;
constexpr unsigned field_power_instant = 186;

struct FieldValue {
  unsigned field_id;
  unsigned scope_id;
  long long timestamp;
  long long latency_us;
  unsigned value_type;
  Return result;
  union {
    double real;
    unsigned int small;
    unsigned long large;
    unsigned long long larger;
    long long signed_larger;
  } value;
};

// An idle GPU (bit 1) is not held back.
constexpr std::array<std::pair<unsigned long long, const char*>, 8> throttles = {{
    {0x2, "application clocks"},
    {0x4, "power cap"},
    {0x8, "hardware slowdown"},
    {0x10, "sync boost"},
    {0x20, "thermal, software"},
    {0x40, "thermal, hardware"},
    {0x80, "power brake"},
    {0x100, "display clocks"},
}};

}  // namespace nvml_abi

struct Nvml::Functions {
  using Return = nvml_abi::Return;
  using Device = nvml_abi::Device;
  using FieldValue = nvml_abi::FieldValue;

  void* library = nullptr;
  Return (*init)() = nullptr;
  Return (*shutdown)() = nullptr;
  Return (*by_pci)(const char*, Device*) = nullptr;
  Return (*name)(Device, char*, unsigned) = nullptr;
  Return (*energy)(Device, unsigned long long*) = nullptr;
  Return (*power)(Device, unsigned*) = nullptr;
  Return (*fields)(Device, int, FieldValue*) = nullptr;
  Return (*clock)(Device, unsigned, unsigned*) = nullptr;
  Return (*temperature)(Device, unsigned, unsigned*) = nullptr;
  Return (*limit)(Device, unsigned*) = nullptr;
  Return (*reasons)(Device, unsigned long long*) = nullptr;

  template <typename Function>
  void find(Function& function, const char* symbol) {
    function = reinterpret_cast<Function>(dlsym(library, symbol));
  }
};

using nvml_abi::success;

std::unique_ptr<Nvml> Nvml::open(const std::string& pci, std::string& why_not) {
  auto functions = std::make_unique<Functions>();
  functions->library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (functions->library == nullptr) {
    why_not = "no energy: NVIDIA's driver brings no libnvidia-ml.so.1 here";
    return nullptr;
  }
  functions->find(functions->init, "nvmlInit_v2");
  functions->find(functions->shutdown, "nvmlShutdown");
  functions->find(functions->by_pci, "nvmlDeviceGetHandleByPciBusId_v2");
  functions->find(functions->name, "nvmlDeviceGetName");
  functions->find(functions->energy, "nvmlDeviceGetTotalEnergyConsumption");
  functions->find(functions->power, "nvmlDeviceGetPowerUsage");
  functions->find(functions->fields, "nvmlDeviceGetFieldValues");
  functions->find(functions->clock, "nvmlDeviceGetClockInfo");
  functions->find(functions->temperature, "nvmlDeviceGetTemperature");
  functions->find(functions->limit, "nvmlDeviceGetEnforcedPowerLimit");
  functions->find(functions->reasons, "nvmlDeviceGetCurrentClocksEventReasons");
  if (functions->reasons == nullptr) functions->find(functions->reasons, "nvmlDeviceGetCurrentClocksThrottleReasons");
  if (functions->init == nullptr || functions->by_pci == nullptr || functions->init() != success) {
    why_not = "no energy: NVML does not start";
    return nullptr;
  }
  std::unique_ptr<Nvml> made(new Nvml());
  if (functions->by_pci(pci.c_str(), &made->device_) != success) {
    why_not = "no energy: NVML does not know the GPU at " + pci;
    return nullptr;
  }
  made->functions_ = std::move(functions);
  return made;
}

Nvml::~Nvml() {
  if (functions_ != nullptr && functions_->shutdown != nullptr) functions_->shutdown();
}

std::string Nvml::gpu() const {
  char name[96] = {};
  if (functions_->name == nullptr || functions_->name(device_, name, sizeof name) != success) return "";
  return name;
}

std::optional<double> Nvml::joules() const {
  unsigned long long millijoules = 0;
  if (functions_->energy == nullptr || functions_->energy(device_, &millijoules) != success) return std::nullopt;
  return static_cast<double>(millijoules) / 1000;
}

std::optional<double> Nvml::watts() const {
  if (functions_->fields == nullptr) return std::nullopt;
  nvml_abi::FieldValue field{};
  field.field_id = nvml_abi::field_power_instant;
  if (functions_->fields(device_, 1, &field) != success || field.result != success) return std::nullopt;
  switch (field.value_type) {
    case 0: return field.value.real / 1000;
    case 1: return static_cast<double>(field.value.small) / 1000;
    case 2: return static_cast<double>(field.value.large) / 1000;
    case 3: return static_cast<double>(field.value.larger) / 1000;
    case 4: return static_cast<double>(field.value.signed_larger) / 1000;
    default: return std::nullopt;
  }
}

State Nvml::state() const {
  State made;
  unsigned value = 0;
  const auto ask = [&](auto function, auto... words) -> std::optional<double> {
    if (function == nullptr || function(device_, words..., &value) != success) return std::nullopt;
    return static_cast<double>(value);
  };
  made.sm_mhz = ask(functions_->clock, nvml_abi::clock_sm);
  made.memory_mhz = ask(functions_->clock, nvml_abi::clock_memory);
  made.temperature_c = ask(functions_->temperature, nvml_abi::temperature_gpu);
  if (const auto milliwatts = ask(functions_->power)) made.watts = *milliwatts / 1000;
  if (const auto milliwatts = ask(functions_->limit)) made.power_limit_w = *milliwatts / 1000;
  unsigned long long reasons = 0;
  if (functions_->reasons != nullptr && functions_->reasons(device_, &reasons) == success)
    for (const auto& [bit, word] : nvml_abi::throttles)
      if ((reasons & bit) != 0) made.throttle.emplace_back(word);
  return made;
}

}  // namespace warplens

#include <ATen/Context.h>
#include <c10/util/Exception.h>
#include <torch/version.h>

#include <cstdlib>
#include <functional>
#include <map>
#include <regex>

#include "bench.hpp"
#include "faults.hpp"

namespace warplens {
namespace {

using Switch = std::function<void(at::Context&, bool)>;

// PyTorch's switches that choose kernels, by their names under `torch`. A plan cannot set others.
const std::map<std::string, Switch> switches = {
    {"backends.cuda.matmul.allow_tf32", [](at::Context& torch, bool on) { torch.setAllowTF32CuBLAS(on); }},
    {"backends.cuda.matmul.allow_fp16_reduced_precision_reduction",
     [](at::Context& torch, bool on) { torch.setAllowFP16ReductionCuBLAS(on); }},
    {"backends.cuda.matmul.allow_bf16_reduced_precision_reduction",
     [](at::Context& torch, bool on) { torch.setAllowBF16ReductionCuBLAS(on); }},
    {"backends.cudnn.enabled", [](at::Context& torch, bool on) { torch.setUserEnabledCuDNN(on); }},
    {"backends.cudnn.benchmark", [](at::Context& torch, bool on) { torch.setBenchmarkCuDNN(on); }},
    {"backends.cudnn.deterministic", [](at::Context& torch, bool on) { torch.setDeterministicCuDNN(on); }},
    {"backends.cudnn.allow_tf32", [](at::Context& torch, bool on) { torch.setAllowTF32CuDNN(on); }},
    {"are_deterministic_algorithms_enabled",
     [](at::Context& torch, bool on) { torch.setDeterministicAlgorithms(on, false); }},
    {"backends.cuda.flash_sdp_enabled", [](at::Context& torch, bool on) { torch.setSDPUseFlash(on); }},
    {"backends.cuda.mem_efficient_sdp_enabled", [](at::Context& torch, bool on) { torch.setSDPUseMemEfficient(on); }},
    {"backends.cuda.math_sdp_enabled", [](at::Context& torch, bool on) { torch.setSDPUseMath(on); }},
    {"backends.cuda.cudnn_sdp_enabled", [](at::Context& torch, bool on) { torch.setSDPUseCuDNN(on); }},
};
const std::map<std::string, at::BlasBackend> blas_libraries = {
    {"default", at::BlasBackend::Default},
    {"cublas", at::BlasBackend::Cublas},
    {"cublaslt", at::BlasBackend::Cublaslt}};
constexpr const char* precision_name = "get_float32_matmul_precision";
constexpr const char* blas_name = "backends.cuda.preferred_blas_library";
// Recorded too, but they choose no kernel of an op that is called by its own name with its own inputs.
constexpr const char* not_ours[] = {"get_num_threads", "backends.cudnn.version", "is_autocast_enabled"};

// Environment variables of the libraries underneath, which read them when they start, and what each may be.
const std::map<std::string, std::regex> variables = {
    {"variables.CUBLAS_WORKSPACE_CONFIG", std::regex(R"((:\d{1,6}:\d{1,4}){1,8})")},
    {"variables.CUBLASLT_WORKSPACE_SIZE", std::regex(R"(\d{1,9})")},
    {"variables.NVIDIA_TF32_OVERRIDE", std::regex("[01]")},
    {"variables.TORCH_ALLOW_TF32_CUBLAS_OVERRIDE", std::regex("[01]")},
    {"variables.TORCH_BLAS_PREFER_CUBLASLT", std::regex("[01]")}};

// Some are enumerations, recorded as `_BlasBackend.Cublas`.
std::string last_word(const std::string& text) {
  std::string word = text.substr(text.rfind('.') + 1);
  for (char& letter : word) letter = static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  return word;
}

// Why it could not be set; empty where it was.
std::string set_one(const std::string& name, const Json& value) {
  at::Context& torch = at::globalContext();
  if (name == precision_name) {
    const std::string word = last_word(value.text);
    if (word != "highest" && word != "high" && word != "medium") return "not one of highest, high, medium";
    torch.setFloat32MatmulPrecision(word);
    return "";
  }
  if (name == blas_name) {
    const auto found = blas_libraries.find(last_word(value.text));
    if (found == blas_libraries.end()) return "not one of default, cublas, cublaslt";
    torch.setBlasPreferredBackend(found->second);
    return "";
  }
  if (const auto variable = variables.find(name); variable != variables.end()) {
    if (!value.is(Json::Kind::text) || !std::regex_match(value.text, variable->second)) return "not a value it can have";
    setenv(name.c_str() + name.find('.') + 1, value.text.c_str(), 1);
    return "";
  }
  const auto found = switches.find(name);
  if (found == switches.end()) return "not a known setting that selects kernels";
  if (!value.is(Json::Kind::boolean)) return "not true or false";
  found->second(torch, value.boolean);
  return "";
}

}  // namespace

std::vector<std::string> restore_settings(const std::vector<std::pair<std::string, Json>>& settings) {
  std::vector<std::string> notes;
  const auto set = [&](const std::pair<std::string, Json>& setting, bool precision) {
    const auto& [name, value] = setting;
    if ((name == precision_name) != precision) return;
    for (const char* each : not_ours)
      if (name == each) return;
    std::string problem;
    try {
      problem = set_one(name, value);
    } catch (const std::exception& error) {
      problem = one_line(error.what());
    }
    if (!problem.empty())
      notes.push_back("setting " + name + "=" + write_json(value, false) + " was not restored: " + problem);
  };
  // Precision first: setting it also sets the TF32 switch, which the plan names apart.
  for (const auto& setting : settings) set(setting, true);
  for (const auto& setting : settings) set(setting, false);
  return notes;
}

std::string torch_version() { return TORCH_VERSION; }

}  // namespace warplens

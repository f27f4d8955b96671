// A replay plan: the units of a trace as data. Nothing in it is ever run but ops that PyTorch knows by name.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "json.hpp"

namespace warplens {

struct Fill {
  std::string kind = "normal";
  double low = 0, high = 1, step = 1;
  std::vector<std::int64_t> digits;  // triples: stride, size, step
};

struct Storage {
  std::int64_t bytes = 0;
  std::string dtype;
  Fill fill;
  bool on_cpu = false;
  bool written = false;
  bool pinned = false;
  std::optional<std::int64_t> reuse_bytes;
};

struct TensorFacts {
  std::size_t storage = 0;
  std::vector<std::int64_t> shape, stride;
  std::string dtype;
  std::int64_t offset = 0;
};

struct Argument {
  std::string kind;
  Json value;
  std::optional<TensorFacts> tensor;
  std::vector<Argument> items;
};

// A kernel, copy or memset that a call launches; of the plan or of a profile.
struct Kernel {
  std::string name, kind;
  std::vector<std::int64_t> grid, block;
  std::optional<std::int64_t> bytes;
  double median_ns = 0;
  std::int64_t traced_total_ns = 0;  // of the plan alone
};

struct Traced {
  std::int64_t total_ns = 0;
  double median_ns = 0, p10_ns = 0, p90_ns = 0;
};

struct Unit {
  std::string id, op, overload, schema, status, reason, category;
  std::int64_t count = 1;
  Traced traced;
  std::vector<Kernel> kernels;
  std::vector<Argument> arguments;
  std::vector<Storage> storages;
  std::vector<std::string> notes;
  bool triton = false;
};

struct Plan {
  std::string id, trace, gpu;
  std::int64_t gpu_ns = 0, wall_ns = 0;
  std::vector<Unit> units;
  std::vector<std::pair<std::string, std::int64_t>> rest;  // GPU time that belongs to no unit, by reason
  std::vector<std::pair<std::string, Json>> settings;
  std::vector<std::pair<std::string, Json>> versions;
};

// The units to run, those that took most of the trace first: an interrupted run then has the most important results.
void sort_by_time(std::vector<const Unit*>& units);
Plan load_plan(const std::string& path);
// Bytes of one element; 0 for a dtype that plans do not have.
int dtype_bytes(const std::string& dtype);

}  // namespace warplens

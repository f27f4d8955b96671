#include "readable.hpp"

namespace warplens {

const std::vector<ReadableUnit>& readable_units() {
  static const std::vector<ReadableUnit> none;
  return none;
}
const char* readable_plan_id() { return ""; }

}  // namespace warplens

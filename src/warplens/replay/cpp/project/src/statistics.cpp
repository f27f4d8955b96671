#include "statistics.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace warplens {
namespace {

// Two-sided 95 % of Student's t, by degrees of freedom from 1 on.
constexpr double student_table[] = {12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
                                    2.201,  2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
                                    2.080,  2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042};
constexpr double infinity = std::numeric_limits<double>::infinity();

double student_95(std::size_t freedom) {
  if (freedom < 1) return infinity;
  if (freedom <= std::size(student_table)) return student_table[freedom - 1];
  return 1.96 + 2.42 / static_cast<double>(freedom);
}

// Between the two values nearest to that share of the way.
double quantile(const std::vector<double>& sorted, double share) {
  const double place = share * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (place - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

// The ranks of the median's 95 % confidence interval: no shape of the distribution is assumed.
double median_half_width(const std::vector<double>& sorted) {
  const auto count = static_cast<double>(sorted.size());
  if (sorted.size() < 6) return infinity;
  const double reach = 1.959964 * std::sqrt(count) / 2;
  const auto low = static_cast<std::size_t>(std::max(0.0, std::floor(count / 2 - reach)));
  const auto high = static_cast<std::size_t>(std::min(count - 1, std::ceil(count / 2 + reach) - 1));
  return (sorted[high] - sorted[low]) / 2;
}

}  // namespace

double median_of(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return quantile(values, 0.5);
}

Spread spread_of(std::vector<double> values) {
  Spread made;
  if (values.empty()) return made;
  std::sort(values.begin(), values.end());
  made.median = quantile(values, 0.5);
  made.p10 = quantile(values, 0.1);
  made.p90 = quantile(values, 0.9);
  made.mean = mean_of(values).value;
  made.min = values.front();
  made.relative_error = made.median > 0 ? median_half_width(values) / made.median : infinity;
  return made;
}

int more_repeats(const std::vector<double>& values, double precision, int most) {
  const auto count = static_cast<double>(values.size());
  const double error = spread_of(values).relative_error;
  if (error <= precision || count >= most) return 0;
  const double wanted = std::isfinite(error) ? count * (error / precision) * (error / precision) * 1.1 : most;
  return std::max(1, static_cast<int>(std::ceil(std::min(wanted, static_cast<double>(most))) - count));
}

Mean mean_of(const std::vector<double>& values) {
  if (values.empty()) return {std::numeric_limits<double>::quiet_NaN(), infinity};
  const auto count = static_cast<double>(values.size());
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / count;
  if (values.size() == 1) return {mean, infinity};
  double squares = 0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  return {mean, student_95(values.size() - 1) * std::sqrt(squares / (count - 1) / count)};
}

}  // namespace warplens

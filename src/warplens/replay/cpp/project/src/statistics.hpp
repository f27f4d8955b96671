// Medians and means of a few measurements, and how far off they may be.
#pragma once

#include <vector>

namespace warplens {

struct Spread {
  double median = 0, p10 = 0, p90 = 0, mean = 0, min = 0;
  double relative_error = 0;  // half the width of the median's 95 % interval, over the median
};

struct Mean {
  double value = 0;
  double half_width = 0;  // of the 95 % interval
};

double median_of(std::vector<double> values);
Spread spread_of(std::vector<double> values);
// How many more samples the precision asks for; the interval narrows with the root of their number.
int more_repeats(const std::vector<double>& values, double precision, int most);
Mean mean_of(const std::vector<double>& values);

}  // namespace warplens

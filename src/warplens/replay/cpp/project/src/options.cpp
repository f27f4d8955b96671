#include "options.hpp"

#include <cstdlib>
#include <sstream>

namespace warplens {
namespace {

double to_number(const std::string& name, const std::string& word, double least, double most) {
  char* end = nullptr;
  const double value = std::strtod(word.c_str(), &end);
  if (word.empty() || *end != '\0' || !(value >= least && value <= most))
    throw UsageError(name + ": no such value: '" + word + "'");
  return value;
}

template <typename Value>
Value pick(const std::string& name, const std::string& word,
           std::initializer_list<std::pair<const char*, Value>> table) {
  std::string known;
  for (const auto& [text, value] : table) {
    if (word == text) return value;
    known += (known.empty() ? "" : ", ") + std::string(text);
  }
  throw UsageError(name + ": '" + word + "' is not one of " + known);
}

std::vector<std::string> split(const std::string& words) {
  std::vector<std::string> made;
  std::stringstream stream(words);
  for (std::string word; std::getline(stream, word, ',');)
    if (!word.empty()) made.push_back(word);
  return made;
}

bool is_device(const std::string& word) {
  if (word == "cpu" || word == "cuda") return true;
  return word.rfind("cuda:", 0) == 0 && word.size() > 5 && word.size() < 9 &&
         word.find_first_not_of("0123456789", 5) == std::string::npos;
}

// Options without a value; false where it is none of them.
bool take_switch(Options& options, const std::string& word) {
  if (word == "--energy") options.energy = true;
  else if (word == "--no-energy") options.energy = false;
  else if (word == "--readable") options.readable = true;
  else if (word == "--describe") options.describe = true;
  else if (word == "--force") options.force = true;
  else if (word == "--worker") options.worker = true;
  else return false;
  return true;
}

void take_value(Options& options, const std::string& name, const std::string& word) {
  if (name == "--plan") {
    options.plan = word;
  } else if (name == "-o" || name == "--output") {
    options.output = word;
  } else if (name == "--device") {
    if (!is_device(word)) throw UsageError("--device: '" + word + "' is neither cpu nor cuda:N");
    options.device = word == "cuda" ? "cuda:0" : word;
  } else if (name == "--cache") {
    options.cache = pick<Cache>(name, word, {{"in-situ", Cache::in_situ}, {"hot", Cache::hot}, {"cold", Cache::cold}});
  } else if (name == "--timer") {
    options.timer = pick<Timer>(name, word, {{"profiler", Timer::profiler}, {"graph", Timer::graph}});
  } else if (name == "--precision") {
    options.precision = to_number(name, word, 1e-4, 1);
  } else if (name == "--max-repeats") {
    options.max_repeats = static_cast<int>(to_number(name, word, 5, 100000));
  } else if (name == "--energy-seconds") {
    options.energy_seconds = to_number(name, word, 0.2, 3600);
  } else if (name == "--energy-cover") {
    options.energy_cover = to_number(name, word, 0, 1);
  } else if (name == "--units") {
    for (const std::string& unit : split(word)) options.units.push_back(unit);
  } else if (name == "--scratch") {
    options.scratch = word;
  } else if (name == "--load") {
    options.libraries.push_back(word);
  } else {
    throw UsageError("no such option: " + name);
  }
}

}  // namespace

std::string cache_name(Cache cache) {
  return cache == Cache::in_situ ? "in-situ" : cache == Cache::hot ? "hot" : "cold";
}

std::string timer_name(Timer timer) { return timer == Timer::graph ? "graph" : "profiler"; }

Options parse_options(int count, char** words, bool& help) {
  Options options;
  help = false;
  for (int at = 1; at < count; ++at) {
    std::string name = words[at];
    if (name == "-h" || name == "--help") {
      help = true;
      return options;
    }
    if (take_switch(options, name)) continue;
    const std::size_t equals = name.find('=');
    if (name.rfind("--", 0) == 0 && equals != std::string::npos) {
      take_value(options, name.substr(0, equals), name.substr(equals + 1));
    } else if (at + 1 < count && name.rfind('-', 0) == 0) {
      take_value(options, name, words[++at]);
    } else {
      throw UsageError(name.rfind('-', 0) == 0 ? name + ": a value is missing" : "not an option: " + name);
    }
  }
  return options;
}

std::vector<std::string> worker_words(const Options& options) {
  std::vector<std::string> words = {
      "--worker", "--scratch", options.scratch, "--plan", options.plan, "--device", options.device, "--cache", cache_name(options.cache),
      "--timer", timer_name(options.timer), "--precision", std::to_string(options.precision),
      "--max-repeats", std::to_string(options.max_repeats), "--energy-seconds", std::to_string(options.energy_seconds),
      "--energy-cover", std::to_string(options.energy_cover)};
  for (const std::string& library : options.libraries) words.insert(words.end(), {"--load", library});
  if (options.energy) words.push_back(*options.energy ? "--energy" : "--no-energy");
  if (options.readable) words.push_back("--readable");
  if (options.describe) words.push_back("--describe");
  return words;
}

std::string usage() {
  return R"(usage: replay [options]

Runs the units of a plan, one by one, and writes what they cost.

  --plan PATH           the plan (default: ../plan.json, relative to this program)
  -o, --output PATH     where the result goes (default: standard output)
  --force               overwrite the result
  --device cpu|cuda:N   (default: cuda:0)
  --units u1,u2         only these units
  --cache MODE          in-situ (default), hot or cold
  --timer TIMER         profiler (default) or graph
  --precision SHARE     relative error of the median at which repeats stop (default 0.02)
  --max-repeats N       maximum repeats per unit (default 200)
  --energy, --no-energy measure energy (default: if there is a meter)
  --energy-seconds S    metering time per unit in seconds (default 2)
  --energy-cover SHARE  meter only the longest units, up to this share of the time (default 0.9)
  --load LIBRARY.so     load a library that registers custom ops (repeatable)
  --readable            call through readable/units.cpp where it has the unit
  --describe            print the dtype, shape and sum of each unit's outputs on standard error
)";
}

}  // namespace warplens

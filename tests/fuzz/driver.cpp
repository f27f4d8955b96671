// A small coverage-guided engine for machines without clang: g++ -fsanitize-coverage=trace-pc reports every branch to
// the function below, and an input that takes a new one joins the corpus.
//
// usage: driver CORPUS SECONDS [SEED] [NEW_INPUTS]   (reports each minute: executions, edges, the corpus' size)
#include <sanitizer/common_interface_defs.h>

#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

constexpr size_t kMap = 1 << 16;
constexpr size_t kLongest = 1 << 14;
uint8_t g_hits[kMap], g_seen[kMap];
uintptr_t g_previous;

const char* const kWords[] = {
    "{", "}", "[", "]", ",", ":", "\"", "\\", "\\u0041", "\\ud83d\\ude00", "\\ud800", "\\n", "null", "true", "false",
    "NaN", "-", "0", "1e5", "1.5", "-0.0", "99999999999999999999", "9223372036854775807", "1700000000123456.789",
    "\"ph\":\"X\"", "\"ph\":\"s\"", "\"ph\":\"M\"", "\"ph\":\"B\"", "\"cat\":\"kernel\"", "\"cat\":\"fwdbwd\"",
    "\"cat\":\"cuda_sync\"", "\"cat\":\"Kernel\"", "\"cat\":\"warplens.x\"", "\"name\":\"[memory]\"", "\"ts\":1.5",
    "\"dur\":2", "\"pid\":1", "\"tid\":\"a\"", "\"id\":null", "\"args\":{", "\"External id\":1", "\"stream\":\"7\"",
    "\"grid\":[1,2,3]", "\"Input Dims\":[[1,2],[]]", "\"Collective name\":\"x\"", "\"Process Group Ranks\":[0,1]",
    "\"est. achieved occupancy %\":1", "\"bytes\":5", "\"Bytes\":-512", "\"Device Type\":1",
    "\"Total Reserved\":9", "\xc3\xbc", "\xe2\x82\xac", "\xf0\x9f\x98\x80", "\xff",
};

using Input = std::vector<uint8_t>;
const Input* g_running;

void write(const std::filesystem::path& path, const Input& input) {
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(input.data()), static_cast<std::streamsize>(input.size()));
}

// Sanitizers call this before they end the process.
void keep_crash() { write("crash", *g_running); }

bool is_zero(const uint8_t* eight) {
    uint64_t word;
    std::memcpy(&word, eight, sizeof word);
    return word == 0;
}

struct Engine {
    std::mt19937_64 random;
    std::vector<Input> corpus;
    uint64_t executions = 0;
    size_t edges = 0;

    size_t below(size_t limit) { return limit == 0 ? 0 : random() % limit; }

    bool run(const Input& input) {
        std::memset(g_hits, 0, sizeof g_hits);
        g_previous = 0;
        g_running = &input;
        LLVMFuzzerTestOneInput(input.data(), input.size());
        ++executions;
        bool is_new = false;
        for (size_t edge = 0; edge < kMap; ++edge) {
            if (edge % 8 == 0 && is_zero(g_hits + edge)) {
                edge += 7;
                continue;
            }
            if (g_hits[edge] == 0) continue;
            // How often counts by its order of magnitude: a loop taken once, twice, or many times.
            const uint8_t hits = g_hits[edge];
            const auto order = static_cast<uint8_t>(hits < 2 ? 1 : hits < 4 ? 2 : hits < 32 ? 4 : 8);
            if (g_seen[edge] & order) continue;
            edges += g_seen[edge] == 0;
            g_seen[edge] |= order;
            is_new = true;
        }
        return is_new;
    }

    void insert(Input& input, const uint8_t* bytes, size_t size) {
        if (input.size() + size > kLongest) return;
        input.insert(input.begin() + static_cast<long>(below(input.size() + 1)), bytes, bytes + size);
    }

    void mutate(Input& input) {
        const size_t at = below(input.size());
        switch (below(7)) {
            case 0: input[at] ^= static_cast<uint8_t>(1 << below(8)); break;
            case 1: input[at] = static_cast<uint8_t>(random()); break;
            case 2: {
                const size_t size = std::min(input.size() - at, 1 + below(below(4) ? 8 : 400));
                const auto first = input.begin() + static_cast<long>(at);
                if (size < input.size()) input.erase(first, first + static_cast<long>(size));
                break;
            }
            case 3:
            case 4: {
                const char* word = kWords[below(std::size(kWords))];
                insert(input, reinterpret_cast<const uint8_t*>(word), std::strlen(word));
                break;
            }
            case 5: {
                const Input& other = corpus[below(corpus.size())];
                const size_t start = below(other.size());
                const size_t size = std::min(other.size() - start, 1 + below(300));
                const Input part(other.data() + start, other.data() + start + size);
                insert(input, part.data(), part.size());
                break;
            }
            default: {
                const size_t size = std::min(input.size() - at, 1 + below(40));
                const Input part(input.data() + at, input.data() + at + size);
                insert(input, part.data(), part.size());
            }
        }
    }
};

Input file_bytes(const std::filesystem::path& path) {
    std::ifstream stream(path, std::ios::binary);
    return Input(std::istreambuf_iterator<char>(stream), {});
}

}  // namespace

extern "C" void __sanitizer_cov_trace_pc() {
    const uintptr_t place = reinterpret_cast<uintptr_t>(__builtin_return_address(0)) * 0x9E3779B97F4A7C15ull >> 48;
    uint8_t& hits = g_hits[(place ^ g_previous) % kMap];
    if (hits < 255) ++hits;
    g_previous = place >> 1;
}

int main(int count, char** words) {
    if (count < 3) return 2;
    __sanitizer_set_death_callback(keep_crash);
    std::signal(SIGABRT, [](int) { keep_crash(); });
    Engine engine;
    engine.random.seed(count > 3 ? std::strtoull(words[3], nullptr, 10) : 1);
    for (const auto& entry : std::filesystem::directory_iterator(words[1])) {
        Input input = file_bytes(entry.path());
        if (input.size() < 2 || input.size() > kLongest) continue;
        engine.run(input);
        engine.corpus.push_back(std::move(input));
    }
    if (engine.corpus.empty()) return 2;
    const size_t given = engine.corpus.size(), given_edges = engine.edges;
    const auto report = [&](long long seconds) {
        std::printf("%lld s: %llu executions, %zu edges (%zu of the given corpus), %zu inputs (%zu given)\n", seconds,
                    static_cast<unsigned long long>(engine.executions), engine.edges, given_edges,
                    engine.corpus.size(), given);
        std::fflush(stdout);
    };
    const auto start = std::chrono::steady_clock::now();
    const auto passed = [start] {
        return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::steady_clock::now() - start).count();
    };
    const long limit = std::atol(words[2]);
    for (long long reported = 0; passed() < limit;) {
        Input input = engine.corpus[engine.below(engine.corpus.size())];
        for (size_t times = 1 + engine.below(6); times > 0; --times) engine.mutate(input);
        if (engine.run(input)) {
            if (count > 4) write(std::filesystem::path(words[4]) / std::to_string(engine.corpus.size()), input);
            engine.corpus.push_back(std::move(input));
        }
        if (passed() >= reported + 60) report(reported = passed());
    }
    report(passed());
    return 0;
}

// SPDX-License-Identifier: Apache-2.0
// P6 and P11 have programs of their own (tests/bench); this runs them and holds their figures against each other.
#include <fmt/format.h>
#include <sys/wait.h>

#include <cstdio>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "tests/bench/card/session.hpp"

namespace bench {

namespace {

// Samples of each benchmark, in the order of the repetitions.
using Samples = std::map<std::string, std::vector<double>>;

std::string output_of(const std::string& command) {
  std::FILE* const pipe = ::popen(command.c_str(), "r");
  require(pipe != nullptr, "could not start " + command);
  std::string text;
  char chunk[4096];
  for (std::size_t n; (n = std::fread(chunk, 1, sizeof chunk, pipe)) != 0;) text.append(chunk, n);
  const int status = ::pclose(pipe);
  require(WIFEXITED(status) && WEXITSTATUS(status) == 0, command + " failed");
  return text;
}

// `field`: "real_time" (ns) or "bytes_per_second".
Samples run(const Session& session, const std::string& program, const std::string& filter, const char* field) {
  const auto folder = std::filesystem::read_symlink("/proc/self/exe").parent_path().parent_path();
  const auto path = folder / program;
  require(std::filesystem::exists(path), path.string() + " is not built");
  const auto text =
      output_of(fmt::format("'{}' '--benchmark_filter={}' --benchmark_format=json --benchmark_repetitions={} "
                            "--benchmark_enable_random_interleaving=true --benchmark_min_time={} 2>/dev/null",
                            path.string(), filter, session.options().rounds, session.options().quick ? 0.02 : 0.1));
  Samples samples;
  for (const auto& entry : nlohmann::json::parse(text).at("benchmarks")) {
    if (entry.at("run_type") != "iteration") continue;
    const auto name = entry.at("run_name").get<std::string>();
    require(!entry.value("error_occurred", false), name + ": " + entry.value("error_message", "wrong data"));
    samples[name].push_back(entry.at(field).get<double>());
  }
  return samples;
}

Row compare(Row row, const Samples& samples, const std::string& ours, const std::string& limit) {
  const auto a = samples.find(ours);
  const auto b = samples.find(limit);
  require(a != samples.end() && b != samples.end(), "no benchmark " + ours + " or " + limit);
  row.ours = a->second;
  row.limits = b->second;
  return row;
}

}  // namespace

void measure_layout(Session& session) {
  constexpr const char* kMemcpy = "Memcpy/8388608";
  constexpr const char* kFilter = "^Memcpy/8388608$|tickify/fp(16|32)_dl16/4096x1024$|^Strided";
  const Samples samples = run(session, "layout_bench", kFilter, "bytes_per_second");
  const auto add = [&](const std::string& what, double goal, const char* checked, const std::string& ours) {
    Row row{.id = "P6",
            .what = what,
            .unit = Unit::BytesPerSecond,
            .limit = "memcpy, 8 MiB",
            .goal = at_least(goal),
            .checked = checked};
    session.add(compare(std::move(row), samples, ours, kMemcpy));
  };
  for (const auto& [name, what] : {std::pair{"fp16_dl16", "fp16 to DL16"}, {"fp32_dl16", "fp32 to DL16"}}) {
    constexpr const char* kSample = "1000 elements against the layout";
    const auto size = fmt::format("{}/4096x1024", name);
    add(fmt::format("host layout to sticks, {}, 4096x1024", what), 0.6, kSample, "Stickify/" + size);
    add(fmt::format("sticks to host layout, {}, 4096x1024", what), 0.6, kSample, "Unstickify/" + size);
  }
  for (const auto& [name, what] : {std::pair{"fp16_dl16", "fp16 to DL16"},
                                   {"fp32_dl16", "fp32 to DL16"},
                                   {"fp32_fp32", "fp32 as it is"},
                                   {"int64_int32", "int64 to int32"},
                                   {"bool_dl16", "bool to DL16"}}) {
    add(fmt::format("strided loops to sticks, {}, runs of a stick", what), 0.5, "1000 elements against the layout",
        fmt::format("StridedToSticks/{}", name));
    add(fmt::format("strided loops from sticks, {}, runs of a stick", what), 0.5, "every byte",
        fmt::format("StridedToHost/{}", name));
  }
}

void measure_allocator(Session& session) {
  const Samples samples = run(session, "allocator_bench", "Pair/(1|100000)$|Trace/65536$", "real_time");
  const auto row = [&](const char* what, const char* limit, double goal, const char* ours, const char* other) {
    session.add(compare(
        Row{.id = "P11", .what = what, .limit = limit, .goal = at_most(goal), .checked = "not the subject: time only"},
        samples, ours, other));
  };
  row("FlexAllocator allocate + free, newest of 100000 live blocks", "itself, 1 live block", 1.5,
      "FlexStackPair/100000", "FlexStackPair/1");
  row("FlexAllocator allocate + free, any of 100000 live blocks", "itself, 1 live block", 1.5, "FlexRandomPair/100000",
      "FlexRandomPair/1");
  row("FlexAllocator allocate + free, any of 100000 live blocks", "malloc + free, same pattern", 1.5,
      "FlexRandomPair/100000", "MallocRandomPair/100000");
  row("FlexAllocator, trace of random sizes to 64 KiB", "malloc + free, same trace", 5, "FlexTrace/65536",
      "MallocTrace/65536");
}

}  // namespace bench

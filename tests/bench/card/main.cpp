// SPDX-License-Identifier: Apache-2.0
// spyre_bench: measures the stack on cards of its own and prints the table. Exit code 0: every figure that was asked
// for was measured and its data were right, whether or not its goal was met. 1: data were wrong or a measurement did
// not end. 2: usage.
#include <fmt/format.h>
#include <sys/utsname.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <thread>

#include "tests/bench/card/session.hpp"

namespace bench {

namespace {

struct Measurement {
  const char* id;
  void (*run)(Session&);
  bool asks_array = false;  // the figure depends on whether the card has the compute array
};

// Those that boot cards of their own come last, so that the shared card is booted once.
constexpr Measurement kMeasurements[] = {
    {"P1", measure_launch_cost},
    {"P2", measure_round_trips, true},
    {"P3", measure_empty_kernel, true},
    {"P4", measure_throughput, true},
    {"P5", measure_transfers, true},
    {"P5", measure_strided, true},
    {"P5", measure_staged, true},
    {"P6", measure_layout},
    {"P7", measure_matmul, true},
    {"P8", measure_operations, true},
    {"P9", measure_cold_start, true},
    {"P10", measure_stream_reset},
    {"P10", measure_function_reset},
    {"P10", measure_scrub, true},
    {"P11", measure_allocator},
    {"P13", measure_overlap},
    {"P14", measure_flex_transfers},
    {"P14", measure_flex_launches},
    {"P15", measure_flex_operations},
    {"P16", measure_compile_time},
    {"P14", measure_flex_start},
    {"P12", measure_many},
    {"N1", measure_idle_neighbours},
    {"N1", measure_noisy_neighbours},
    {"N2", measure_attach},
    {"N3", measure_owners},
};

std::string known_ids() {
  std::string text;
  std::string_view last;  // several measurements may belong to one figure
  for (const Measurement& measurement : kMeasurements) {
    if (measurement.id != last) text += (text.empty() ? "" : ",") + std::string(measurement.id);
    last = measurement.id;
  }
  return text;
}

void check_ids(const std::vector<std::string>& only) {
  for (const std::string& id : only) {
    const bool known = std::ranges::any_of(kMeasurements, [&](const Measurement& m) { return id == m.id; });
    if (!known) throw CLI::ValidationError("--only", "no figure '" + id + "'; there are " + known_ids());
  }
}

void describe_machine(Session& session) {
  utsname system{};
  ::uname(&system);
  double load[1] = {};
  if (::getloadavg(load, 1) != 1) load[0] = 0;
  session.report().note(
      fmt::format("{} CPUs ({}), load {:.1f} at the start, {} rounds{}; ratios are medians of the rounds' ratios",
                  std::thread::hardware_concurrency(), system.machine, load[0], session.options().rounds,
                  session.options().quick ? ", quick" : ""));
}

void measure(Session& session, const Measurement& measurement) {
  try {
    measurement.run(session);
  } catch (const std::exception& error) {
    fmt::print(stderr, "  FAILED: {}\n", error.what());
    session.report().fail(measurement.id, error.what());
    session.end_card();  // the next one gets a card whose state is known
  }
}

void measure(Session& session, const std::vector<std::string>& only) {
  for (const Measurement& measurement : kMeasurements) {
    if (!only.empty() && std::ranges::find(only, measurement.id) == only.end()) continue;
    fmt::print(stderr, "{} …\n", measurement.id);
    const Options::Array array = session.options().array;
    session.use_array(array != Options::Array::Off);
    measure(session, measurement);
    if (array != Options::Array::Both || !measurement.asks_array) continue;
    session.use_array(false);
    measure(session, measurement);
  }
}

int run(int argc, char** argv) {
  CLI::App app{"spyre_bench: the performance table, every limit measured in the same run"};
  Options options;
  std::vector<std::string> only;
  std::string json_file;
  app.add_option("--only", only, "figures to measure, for example P2,P5 (default: " + known_ids() + ")")
      ->delimiter(',');
  app.add_flag("--quick", options.quick, "fewer repetitions and 3 rounds: for a look, not for a record");
  auto* rounds = app.add_option("--rounds", options.rounds, "rounds of every figure")->check(CLI::Range(3, 1000));
  app.add_option("--cores", options.cores, "harts of the card (0: by this machine)")->check(CLI::Range(0, 64));
  const std::map<std::string, Options::Array> arrays{
      {"on", Options::Array::On}, {"off", Options::Array::Off}, {"both", Options::Array::Both}};
  const char* const chosen = std::getenv("SPYRE_ARRAY");
  if (chosen != nullptr && std::string_view(chosen) == "off") options.array = Options::Array::Off;
  app.add_option("--array", options.array,
                 "cards with the compute array, without it, or both (default, but for SPYRE_ARRAY=off)")
      ->transform(CLI::CheckedTransformer(arrays));
  app.add_option("--json", json_file, "also write everything that was measured to this file");
  try {
    app.parse(argc, argv);
    check_ids(only);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  if (options.quick && rounds->count() == 0) options.rounds = 3;
  Session session(options);
  describe_machine(session);
  measure(session, only);
  session.end_card();
  fmt::print("{}", session.report().table());
  if (!json_file.empty()) {
    std::ofstream file(json_file);
    file << session.report().json().dump(2) << "\n";
    if (!file.flush()) {
      fmt::print(stderr, "spyre_bench: could not write {}\n", json_file);
      return 1;
    }
  }
  return session.report().failed() ? 1 : 0;
}

}  // namespace

}  // namespace bench

int main(int argc, char** argv) {
  try {
    return bench::run(argc, argv);
  } catch (const std::exception& error) {
    fmt::print(stderr, "spyre_bench: {}\n", error.what());
    return 1;
  }
}

// SPDX-License-Identifier: Apache-2.0
// P16: dxp_standalone as torch-spyre calls it, from its start until it has been waited for, beside `true`.
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <string>

#include "tests/bench/card/bench_bundles.hpp"
#include "tests/bench/card/session.hpp"
#include "tests/bench/card/statistics.hpp"

namespace bench {

namespace {

constexpr unsigned kRuns = 50;

// Nanoseconds until it has ended, which it does with 0.
double run_time(const std::string& program, std::vector<std::string> arguments) {
  std::vector<char*> words{const_cast<char*>(program.c_str())};
  for (std::string& word : arguments) words.push_back(word.data());
  words.push_back(nullptr);
  const auto start = Clock::now();
  pid_t child = 0;
  require(::posix_spawn(&child, program.c_str(), nullptr, nullptr, words.data(), environ) == 0,
          "cannot start " + program);
  int status = 0;
  require(::waitpid(child, &status, 0) == child, "cannot wait for " + program);  // bounded: it compiles one bundle
  const double ns = ns_since(start);
  require(WIFEXITED(status) && WEXITSTATUS(status) == 0, program + " failed");
  return ns;
}

double median_of_runs(unsigned runs, const std::string& program, const std::vector<std::string>& arguments) {
  std::vector<double> samples(runs);
  for (double& sample : samples) sample = run_time(program, arguments);
  return median(std::move(samples));
}

}  // namespace

void measure_compile_time(Session& session) {
  struct Measured {
    BundleFolder::Content content;
    const char* what;
  };
  for (const Measured& measured :
       {Measured{BundleFolder::Content::Add, "dxp_standalone, bundle of one addition"},
        Measured{BundleFolder::Content::Attention, "dxp_standalone, attention of 29 operations"}}) {
    const BundleFolder folder(measured.content);
    const auto result = folder.path() / "spyreCodeDir" / "spyrecode.json";
    Row row{.id = "P16", .what = measured.what, .limit = "/bin/true", .checked = "exit code, and a plan is there"};
    const unsigned runs = session.amount(kRuns);
    for (unsigned round = 0; round < session.options().rounds; ++round) {
      const double ours = median_of_runs(runs, SPYRE_DXP_STANDALONE, {"-d", folder.path().string()});
      row.add(ours, median_of_runs(runs, "/bin/true", {}));
      require(std::filesystem::remove(result), "the compiler has left no plan");
    }
    session.add(std::move(row));
  }
}

}  // namespace bench

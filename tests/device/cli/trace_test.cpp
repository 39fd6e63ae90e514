// SPDX-License-Identifier: Apache-2.0
// `spyre trace`: what host and card did, drawn on one clock. Order and overlap are read from the page.
#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/device/cli/cli_fixture.hpp"
#include "tests/support/expected_array.hpp"
#include "tests/support/perfetto_page.hpp"

namespace svp {
namespace {

using test::Finished;
using test::PerfettoPage;
using testing::HasSubstr;

class Trace : public test::Cli {
 protected:
  Trace() {
    std::string name = (std::filesystem::temp_directory_path() / "trace-test-XXXXXX").string();
    folder_ = ::mkdtemp(name.data());
  }
  ~Trace() override { std::filesystem::remove_all(folder_); }

  std::string page_path() const { return (folder_ / "trace.json").string(); }
  Finished trace(std::vector<std::string> options, const std::vector<std::string>& command) const {
    options.insert(options.begin(), {"trace", "-o", page_path()});
    options.push_back("--");
    options.insert(options.end(), command.begin(), command.end());
    return test::run(spyre(std::move(options)), environment());
  }
  std::string page_text() const {
    std::ostringstream text;
    text << std::ifstream(page_path()).rdbuf();
    return text.str();
  }
  static bool overlap(const PerfettoPage::Interval& a, const PerfettoPage::Interval& b) {
    return a.begin < b.end && b.begin < a.end;
  }

  std::filesystem::path folder_;
};

// A matmul of four tiles: 4 × (HostOperation, correction DMA, compute), transfers of operands before and after.
TEST_F(Trace, AMatmulIsDrawnOnOneClock) {
  // Of each of four tiles of [128,128] times [128,128], when every request has 64 rows, 64 columns and 64 k.
  constexpr std::size_t kFewestRequests = 4 * 2 * 2 * 2;
  const auto ran = trace({}, spyre({"run", "matmul", "--m", "512", "--n", "128", "--k", "128", "--tile", "128"}));
  ASSERT_EQ(ran.code, 0) << ran.output;
  EXPECT_THAT(ran.output, HasSubstr("ui.perfetto.dev"));
  const PerfettoPage page(page_text());
  EXPECT_EQ(page.problems(), "");
  EXPECT_EQ(page.other().at("clock_segments"), 1);
  for (const char* left_out : {"unwritten", "damaged", "unplaced"}) EXPECT_EQ(page.other().at(left_out), 0) << left_out;
  const double error = page.other().at("clock_error_us").get<double>() + 0.2;

  const auto operations = page.intervals_named("host operation matmul");
  EXPECT_EQ(operations.size(), 4u);
  const auto launches = page.intervals_named("launch matmul");
  ASSERT_EQ(launches.size(), 1u);
  for (const auto& operation : operations) {
    EXPECT_GE(operation.begin, launches[0].begin) << "a host operation runs inside its launch";
    EXPECT_LE(operation.end, launches[0].end);
  }
  const auto blocks = page.intervals(page.track("stream 0"));
  std::vector<PerfettoPage::Interval> computes;
  std::vector<PerfettoPage::Interval> corrections;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    if (blocks[i].name == "COMPUTE matmul") computes.push_back(blocks[i]);
    if (blocks[i].name == "DMA correction") corrections.push_back(blocks[i]);
    EXPECT_EQ(blocks[i].arguments.at("outcome"), "OK");
    if (i != 0) EXPECT_GE(blocks[i].begin, blocks[i - 1].end - 0.2) << "first in, first out";
  }
  ASSERT_EQ(computes.size(), 4u);
  ASSERT_EQ(corrections.size(), 4u);
  for (std::size_t tile = 0; tile < 4; ++tile) {
    EXPECT_EQ(computes[tile].arguments.at("tile"), tile);
    EXPECT_LE(corrections[tile].end, computes[tile].begin + 0.2) << "a kernel begins when it is corrected";
    EXPECT_GE(computes[tile].begin, launches[0].begin - error) << "nothing of the card is before its launch";
  }
  // The cores' own time: every kernel was run in slices, each inside its block, and never two at a time on one core.
  const auto cores = page.tracks("core ");
  ASSERT_FALSE(cores.empty());
  std::size_t slices = 0;
  for (const auto& core : cores) {
    for (const auto& slice : page.intervals(core)) {
      if (slice.name.ends_with("moved ahead")) continue;  // a transfer beside the computation
      ++slices;
      const auto inside = std::ranges::count_if(computes, [&](const auto& compute) {
        return compute.arguments.at("sequence") == slice.arguments.at("sequence") &&
               slice.begin >= compute.begin - 0.2 && slice.end <= compute.end + 0.2;
      });
      EXPECT_EQ(inside, 1) << slice.begin << " … " << slice.end;
    }
  }
  EXPECT_GE(slices, 4u);
  std::size_t requests = 0;
  for (const auto& core : cores) {
    for (const std::string& instant : page.instants(core)) requests += instant == "array: products" ? 1 : 0;
  }
  if (test::cards_have_array()) EXPECT_GE(requests, kFewestRequests);
  if (!test::cards_have_array()) EXPECT_EQ(requests, 0u);
  EXPECT_THAT(page.waits(), testing::Contains("in the ring"));
  EXPECT_THAT(page.waits(), testing::Contains("queued on the card"));
  // The program waits for the last block.
  const auto waits = page.intervals_named("wait");
  ASSERT_FALSE(waits.empty());
  EXPECT_GE(std::ranges::max(waits, {}, &PerfettoPage::Interval::end).end, computes.back().end - error);
  // The engine has every transfer; what was under way at the same time as another one has a line of its own.
  std::size_t transfers = 0;
  for (const auto& stream : page.tracks("stream ")) {
    for (const auto& block : page.intervals(stream)) transfers += block.name.starts_with("DMA") ? 1 : 0;
  }
  std::size_t moved = 0;
  for (const auto& line : page.tracks("DMA engine")) moved += page.intervals(line).size();
  EXPECT_EQ(moved, transfers);
}

// Killed while it holds its card: what it had recorded until then is drawn.
TEST_F(Trace, AProgramThatIsKilledLeavesItsTrace) {
  const std::string script = "cd " + folder_.string() +
                             " && mkfifo in out || exit 1\n" SPYRE_RANK
                             " hold <in >out & pid=$!\n"
                             "exec 3>in; read line <out; kill -9 $pid; wait $pid";
  const auto ran = trace({}, {"sh", "-c", script});
  EXPECT_EQ(ran.code, 128 + 9) << ran.output;
  const PerfettoPage page(page_text());
  EXPECT_EQ(page.problems(), "");
  EXPECT_THAT(page.process_name(1U << 30), HasSubstr("PF of cli_rank")) << "the first function of a card";
}

TEST_F(Trace, TooFewRecordsAreTold) {
  const auto ran = trace({"--records", "5"}, {SPYRE_RANK, "work"});
  EXPECT_EQ(ran.code, 0);
  EXPECT_THAT(ran.output, HasSubstr("found no room: give --records"));
  const PerfettoPage page(page_text());
  EXPECT_EQ(page.problems(), "");
  EXPECT_GT(page.other().at("lost"), 0);
}

TEST_F(Trace, ExitCodesAreThoseOfTheCommand) {
  const auto nothing = trace({}, {"sh", "-c", "exit 7"});
  EXPECT_EQ(nothing.code, 7);
  EXPECT_THAT(nothing.output, HasSubstr("the command opened no card"));
  EXPECT_FALSE(std::filesystem::exists(page_path()));
  EXPECT_EQ(trace({}, {"/no/such/command"}).code, 127);
  EXPECT_EQ(trace({"--records", "0"}, {"true"}).code, 125);
  EXPECT_EQ(test::run(spyre({"trace"}), environment()).code, 125) << "no command";
  const auto unwritable =
      test::run(spyre({"trace", "-o", "/no/such/folder/page.json", "--", SPYRE_RANK, "work"}), environment());
  EXPECT_EQ(unwritable.code, 125);
  EXPECT_THAT(unwritable.output, HasSubstr("can not be written"));
}

TEST_F(Trace, AFolderThatIsNotThereIsRefusedWhenACardIsOpened) {
  const auto ran = test::run({SPYRE_RANK, "work"}, environment({{"SPYRE_TRACE", "/no/such/folder"}}));
  EXPECT_NE(ran.code, 0);
  EXPECT_THAT(ran.output, HasSubstr("no trace can be written to /no/such/folder"));
}

}  // namespace
}  // namespace svp

// SPDX-License-Identifier: Apache-2.0
// The page, read as Perfetto reads it: every event has the members that its phase needs, intervals of a track nest, and
// arrows begin and end inside intervals.
#include "host_driver/trace/perfetto.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "host_driver/trace/recorder.hpp"
#include "shared/control_block.hpp"
#include "tests/support/perfetto_page.hpp"

namespace svp::trace {
namespace {

using svp::test::PerfettoPage;

// Host and card count from the same moment: 1 tick is 100 ns.
Entry block(std::uint64_t launch, std::uint64_t sent, std::uint64_t start, std::uint64_t end, wire::Opcode opcode) {
  Entry entry;
  entry.kind = Kind::Block;
  entry.opcode = static_cast<std::uint8_t>(opcode);
  entry.card = 1;
  entry.stream = 4;
  entry.launch = launch;
  entry.sequence = launch;
  entry.begin = sent;
  entry.end = end * 100;
  entry.device_begin = start;
  entry.device_end = end;
  return entry;
}

ProcessTrace two_launches() {
  ProcessTrace trace;
  trace.process = 42;
  trace.program = "a \"program\"";
  Entry card;
  card.kind = Kind::Card;
  card.card = 1;
  card.begin = card.end = 1;
  card.text = "card0 PF";
  trace.entries.push_back(card);
  for (std::uint64_t launch = 1; launch <= 2; ++launch) {
    Entry call;
    call.kind = Kind::Launch;
    call.thread = 42;
    call.card = 1;
    call.stream = 4;
    call.launch = launch;
    call.tile = 1;
    call.begin = launch * 1000;
    call.end = call.begin + 500;
    call.text = "add";
    trace.entries.push_back(call);
  }
  trace.entries.push_back(block(1, 1400, 14, 30, wire::Opcode::Dma));
  trace.entries.push_back(block(1, 1400, 30, 50, wire::Opcode::Compute));
  trace.entries.push_back(block(2, 2400, 50, 60, wire::Opcode::Compute));
  return trace;
}

TEST(Perfetto, LaunchesBlocksAndArrows) {
  const std::vector<ProcessTrace> traces = {two_launches()};
  std::ostringstream out;
  const Drawn drawn = write_perfetto(out, traces);
  EXPECT_EQ(drawn.launches, 2u);
  EXPECT_EQ(drawn.blocks, 3u);
  EXPECT_EQ(drawn.clock_segments, 1u);
  const PerfettoPage page(out.str());
  EXPECT_EQ(page.problems(), "");
  EXPECT_EQ(page.process_name(42), "a \"program\" (42)");
  const auto stream = page.track("stream 4");
  const auto blocks = page.intervals(stream);
  ASSERT_EQ(blocks.size(), 3u);
  EXPECT_EQ(blocks[0].name, "DMA");
  EXPECT_NEAR(blocks[0].begin, 1.4 - 0.001, 0.2) << "device time on the host's clock";
  EXPECT_NEAR(blocks[2].end, 6.0 - 0.001, 0.2);
  EXPECT_EQ(page.intervals(page.track("DMA engine")).size(), 1u) << "the transfer, on the engine as well";
  // From each launch an arrow through its blocks.
  const auto arrows = page.arrows();
  ASSERT_EQ(arrows.size(), 2u);
  EXPECT_EQ(arrows[0], "s@thread 42 t@stream 4 f@stream 4");
  EXPECT_EQ(arrows[1], "s@thread 42 f@stream 4");
}

TEST(Perfetto, TransfersOfTwoStreamsLieBesideEachOther) {
  ProcessTrace trace = two_launches();
  Entry other = block(1, 1400, 20, 40, wire::Opcode::Dma);
  other.stream = 5;
  trace.entries.push_back(other);
  const std::vector<ProcessTrace> traces = {trace};
  std::ostringstream out;
  (void)write_perfetto(out, traces);
  const PerfettoPage page(out.str());
  EXPECT_EQ(page.problems(), "");
  EXPECT_EQ(page.intervals(page.track("DMA engine")).size(), 1u);
  EXPECT_EQ(page.intervals(page.track("DMA engine, transfer 2 at a time")).size(), 1u);
}

TEST(Perfetto, ABlockThatNeverRanIsAnInstantWithItsOutcome) {
  ProcessTrace trace = two_launches();
  Entry never = block(3, 2500, 0, 0, wire::Opcode::Compute);
  never.end = 9000;
  never.outcome = static_cast<std::uint8_t>(wire::Outcome::Aborted);
  trace.entries.push_back(never);
  const std::vector<ProcessTrace> traces = {trace};
  std::ostringstream out;
  (void)write_perfetto(out, traces);
  const PerfettoPage page(out.str());
  EXPECT_EQ(page.problems(), "");
  EXPECT_THAT(page.instants(page.track("stream 4")), testing::ElementsAre("COMPUTE: ABORTED"));
}

TEST(Perfetto, SlicesMarksAndTheQueueOfTheCard) {
  ProcessTrace trace = two_launches();
  Entry slice;
  slice.kind = Kind::CardSlice;
  slice.card = 1;
  slice.core = 3;
  slice.stream = 4;
  slice.sequence = 1;
  slice.begin = slice.end = 5100;
  slice.device_begin = 31;
  slice.device_end = 49;
  trace.entries.push_back(slice);
  Entry mark = slice;
  mark.kind = Kind::CardMark;
  mark.device_begin = mark.device_end = 40;
  mark.bytes = 7;
  trace.entries.push_back(mark);
  Entry request = mark;
  request.kind = Kind::CardArray;
  request.bytes = 2;
  trace.entries.push_back(request);
  Entry queued = slice;
  queued.kind = Kind::CardQueued;
  queued.device_begin = queued.device_end = 12;
  trace.entries.push_back(queued);
  Entry lost;
  lost.kind = Kind::CardLost;
  lost.card = 1;
  lost.begin = lost.end = 6000;
  lost.bytes = 5;
  trace.entries.push_back(lost);
  const std::vector<ProcessTrace> traces = {trace};
  std::ostringstream out;
  const Drawn drawn = write_perfetto(out, traces);
  EXPECT_EQ(drawn.slices, 1u);
  EXPECT_EQ(drawn.marks, 1u);
  EXPECT_EQ(drawn.array_requests, 1u);
  EXPECT_EQ(drawn.lost, 5u);
  const PerfettoPage page(out.str());
  EXPECT_EQ(page.problems(), "");
  EXPECT_EQ(page.intervals(page.track("core 3")).size(), 1u);
  EXPECT_THAT(page.instants(page.track("core 3")), testing::ElementsAre("mark 7", "array: products"));
  EXPECT_THAT(page.waits(), testing::UnorderedElementsAre("in the ring", "queued on the card", "in the ring",
                                                          "queued on the card", "sent"));
}

// Whatever a file holds, reading ends, and the page can be parsed.
TEST(Perfetto, DamagedFilesAreDrawnAsFarAsTheyGo) {
  std::string name = (std::filesystem::temp_directory_path() / "trace-XXXXXX").string();
  const std::filesystem::path folder = ::mkdtemp(name.data());
  std::string whole;
  {
    const auto recorder = value_or_throw(Recorder::open(folder.string(), 64));
    (void)recorder->open_card("card0 PF");
    for (unsigned i = 1; i < 60; ++i) {
      Record* record = recorder->take(static_cast<Kind>(1 + i % static_cast<unsigned>(kLastKind)));
      record->begin = i * 1000;
      record->end = record->begin + 500;
      record->device_begin = i * 10;
      record->device_end = record->device_begin + 4;
      record->card = 1;
      record->stream = i % 3;
      record->launch = record->sequence = i;
      record->tile = 1;
      Recorder::commit(*record);
    }
    std::ifstream in(recorder->path(), std::ios::binary);
    whole.assign(std::istreambuf_iterator<char>(in), {});
  }
  const auto path = folder / "damaged";
  std::mt19937_64 random(7);
  std::uint64_t drawn_events = 0;
  for (unsigned round = 0; round < 400; ++round) {
    std::string damaged = whole;
    for (unsigned flips = 0; flips <= random() % 40; ++flips) {
      const std::size_t at = random() % 2 == 0 ? random() % 200 : random() % damaged.size();
      damaged[at] = static_cast<char>(random());
    }
    if (random() % 4 == 0) damaged.resize(random() % damaged.size());
    std::ofstream(path, std::ios::binary | std::ios::trunc) << damaged;
    auto trace = read_file(path);
    if (!trace) continue;
    const std::vector<ProcessTrace> traces = {*std::move(trace)};
    std::ostringstream out;
    drawn_events += write_perfetto(out, traces).events;
    ASSERT_NO_THROW((void)nlohmann::json::parse(out.str())) << "round " << round;
  }
  EXPECT_GT(drawn_events, 0u);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace svp::trace

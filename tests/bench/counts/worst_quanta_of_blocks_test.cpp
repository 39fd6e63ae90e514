// SPDX-License-Identifier: Apache-2.0
// The longest iteration of hart 0's loop that a function can cause with each control block, in instructions: a ring
// full of the same, with the arguments and the state that make it dearest.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <string>
#include <thread>

#include "qemu/card.hpp"
#include "shared/kernel_abi.hpp"
#include "tests/bench/counts/worst_quanta.hpp"
#include "tests/support/lengthened_image.hpp"

namespace counts {
namespace {

using raw::RawDriver;
using raw::StreamHandle;
using wire::ControlBlock;
using wire::Opcode;

// A block of a command buffer.
struct Row {
  std::string what;
  ControlBlock block;
};

class WorstQuantaOfBlocks : public WorstQuanta, public testing::WithParamInterface<Opcode> {
 protected:
  // All rows of a block. A block that is not here does not compile.
  void measure(Opcode opcode);

  void move();
  void fill();
  void compute();
  void signal();
  void wait();
  void let_budgets_end();
  void call();
  void call_prepared();
  void patch();

  void expect_bounded_flood(const std::string& what, const std::function<ControlBlock()>& make,
                            std::uint64_t most = kMostInstructions) {
    expect_bounded(what, [&] { flood_blocks(make); }, most);
  }
  // An image that calls of one after another find cached no more.
  static constexpr unsigned kImages = 2 * wire::kExecutionAreas;
  static std::uint64_t image_at(unsigned index) { return (index % kImages) * wire::kMiB / 2; }

  StreamHandle stream_;
};

void WorstQuantaOfBlocks::measure(Opcode opcode) {
  switch (opcode) {
    case Opcode::Nop: return expect_bounded_flood("NOP", [&] { return tenant_.driver.nop(stream_); });
    case Opcode::Dma: return move();
    case Opcode::Fill: return fill();
    case Opcode::Compute: return compute();
    case Opcode::EventSignal: return signal();
    case Opcode::EventWait: return wait();
    case Opcode::Call: return call();
    case Opcode::Prepared: return call_prepared();
    case Opcode::Patch: return patch();
  }
  FAIL() << "no block";
}

void WorstQuantaOfBlocks::move() {
  RawDriver& driver = tenant_.driver;
  const auto linear = [&](std::uint64_t bytes) {
    return driver.dma(stream_, RawDriver::host(kSource), RawDriver::device(region_, 0), bytes);
  };
  expect_bounded_flood("DMA of a stick", [&] { return linear(wire::kStickBytes); });
  expect_bounded_flood("DMA of 256 KiB", [&] { return linear(256 * wire::kKiB); });
  expect_bounded_flood(
      "DMA of 64 KiB that is summed",
      [&] {
        auto block = driver.dma(stream_, RawDriver::device(region_, 0), RawDriver::host(kSource), 64 * wire::kKiB);
        block.payload.dma.flags |= wire::kDmaChecksum;
        driver.seal(block);
        return block;
      },
      most_of_loops());
  expect_bounded_flood("DMA of the deepest nest", [&] { return deepest_nest(stream_); });
  expect_bounded_flood(
      "DMA of 64 Ki bytes that stand alone",
      [&] {
        const wire::StridedLevel levels[] = {{wire::kKiB, 2, 2}, {64, 4 * wire::kKiB, 4 * wire::kKiB}};
        return driver.strided(stream_, RawDriver::device(region_, 0), RawDriver::device(region_, 2 * wire::kMiB), 1,
                              levels);
      },
      most_of_loops());
}

void WorstQuantaOfBlocks::fill() {
  RawDriver& driver = tenant_.driver;
  expect_bounded_flood("FILL of a stick", [&] { return driver.fill(stream_, region_, 0, wire::kStickBytes, 1); });
  expect_bounded_flood("FILL of 256 KiB", [&] { return driver.fill(stream_, region_, 0, 256 * wire::kKiB, 1); });
}

void WorstQuantaOfBlocks::compute() {
  const auto image = empty_kernel();
  for (unsigned i = 0; i < kImages; ++i) load(image_at(i), image);
  expect_bounded_flood("COMPUTE", [&] { return launch(stream_, 0, image.size()); });
  unsigned next = 0;
  expect_bounded_flood(
      "COMPUTE of an image that is not cached", [&] { return launch(stream_, image_at(next++), image.size()); },
      kMostOfANewSpace);
  const auto largest = svp::test::lengthened_image(image);
  constexpr unsigned kLargest = 17;  // more than execution areas
  static_assert(kLargest > wire::kExecutionAreas);
  const auto at = [](unsigned index) { return (index % kLargest) * wire::align_up(wire::kMaxImageBytes, 128); };
  for (unsigned i = 0; i < kLargest; ++i) load(at(i), largest);
  expect_bounded(
      "COMPUTE of the largest image",
      [&] {
        for (unsigned i = 0; i < 2 * kLargest; ++i) tenant_.driver.submit(launch(stream_, at(i), largest.size()));
        expect_all_ok(2 * kLargest);
      },
      most_of_loops());
}

void WorstQuantaOfBlocks::signal() {
  RawDriver& driver = tenant_.driver;
  std::uint64_t value = 0;
  expect_bounded_flood("EVENT_SIGNAL", [&] { return driver.event_signal(stream_, ++value); });
  // Each signal looks along the chain that it may have closed.
  expect_bounded("EVENT_SIGNAL behind a chain of 95 waits", [&] {
    begin_again();
    const StreamHandle zero;
    auto streams = open_all();
    constexpr unsigned kHeads = 30;
    for (std::size_t i = streams.size(); i-- != 0;) {
      const StreamHandle& awaited = i < kHeads ? streams[kHeads] : i + 1 == streams.size() ? zero : streams[i + 1];
      driver.submit(driver.event_wait(streams[i], awaited, 1));
      driver.submit(driver.event_signal(streams[i], 1));
      settle();
    }
    for (std::uint64_t next = 2; next < 9; ++next) {
      for (unsigned i = 0; i < kHeads; ++i) driver.submit(driver.event_signal(streams[i], next));
      settle();
    }
  });
  expect_bounded("EVENT_SIGNAL under 127 waits for it", [&] {
    begin_again();
    StreamHandle zero;
    wait_everywhere();
    driver.submit(driver.event_signal(zero, 1));
    settle();
    begin_again();
  });
}

void WorstQuantaOfBlocks::wait() {
  RawDriver& driver = tenant_.driver;
  const StreamHandle zero;
  auto stream = driver.open_stream().value();
  driver.submit(driver.event_signal(stream_, 1));
  expect_all_ok(1);
  expect_bounded_flood("EVENT_WAIT, fulfilled", [&] { return driver.event_wait(stream, zero, 1); });
  expect_bounded("EVENT_WAIT of each stream for the next", [&] {
    begin_again();
    auto streams = open_all();
    for (std::size_t i = streams.size() - 1; i-- != 0;) {
      driver.submit(driver.event_wait(streams[i], streams[i + 1], 1));
    }
    settle();
    begin_again();
  });
  expect_bounded("EVENT_WAIT, 127 budgets that end at once", [&] { let_budgets_end(); });
}

// The emulator stands still from before the first budget is over until after the last. Where it took longer than a
// budget to send all waits, they have twice as much.
void WorstQuantaOfBlocks::let_budgets_end() {
  RawDriver& driver = tenant_.driver;
  const StreamHandle zero;
  const pid_t emulator = card_.context().card().machine().pid();
  std::size_t waits = 0, ended_before = 1;
  for (std::uint64_t seconds = 1; ended_before != 0; seconds *= 2) {
    ASSERT_LE(seconds, 64u) << "budgets were over before the emulator stood still";
    begin_again();
    auto streams = open_all();
    waits = streams.size();
    for (StreamHandle& stream : streams) {
      driver.submit(driver.event_wait(stream, zero, 1, seconds * wire::kTicksPerSecond));
    }
    settle();
    ASSERT_EQ(::kill(emulator, SIGSTOP), 0);
    ended_before = driver.collect().size();
    const auto all_over = std::chrono::seconds{seconds} * 3 / 2;
    if (ended_before == 0) std::this_thread::sleep_for(all_over);  // bounded: what goes by is time
    ASSERT_EQ(::kill(emulator, SIGCONT), 0);
  }
  for (const raw::Ended& end : driver.wait_for(waits)) EXPECT_EQ(end.completion.status, wire::Status::BudgetExpired);
  begin_again();
}

void WorstQuantaOfBlocks::call() {
  RawDriver& driver = tenant_.driver;
  StreamHandle nowhere;
  const auto image = empty_kernel();
  load(0, image);
  const Row rows[] = {
      {"NOPs", driver.nop(nowhere)},
      {"FILLs", driver.fill(nowhere, region_, 0, wire::kStickBytes, 1)},
      {"transfers", driver.dma(nowhere, RawDriver::device(region_, 0), RawDriver::device(region_, wire::kMiB), 128)},
      {"nests", deepest_nest(nowhere)},
      {"launches", launch(nowhere, 0, image.size())}};
  for (const Row& row : rows) {
    const auto buffer = make_buffer(row.block);
    const auto call = [&](unsigned calls) {
      for (unsigned i = 0; i < calls; ++i) driver.submit(call_of(stream_, buffer));
      expect_all_ok(calls);
    };
    expect_bounded("CALL of 64 " + row.what, [&] { call(32); });
    expect_bounded("CALL of 64 " + row.what + ", judged again", [&] {
      for (int i = 0; i < 8; ++i) {
        change_regions();
        call(1);
      }
    });
    destroy(buffer);
  }
  // Several buffers, so that each call judges one.
  constexpr unsigned kBuffers = 32;
  std::vector<BufferName> buffers;
  buffers.reserve(kBuffers);
  for (unsigned i = 0; i < kBuffers; ++i) buffers.push_back(make_buffer(rows[4].block));
  expect_bounded("CALLs of 64 launches each, judged again", [&] {
    for (int round = 0; round < 4; ++round) {
      change_regions();
      for (const BufferName& buffer : buffers) driver.submit(call_of(stream_, buffer));
      expect_all_ok(buffers.size());
    }
  });
}

void WorstQuantaOfBlocks::call_prepared() {
  StreamHandle nowhere;
  const auto image = empty_kernel();
  load(0, image);
  constexpr unsigned kBuffers = 64;
  std::vector<BufferName> buffers;
  buffers.reserve(kBuffers);
  for (unsigned i = 0; i < kBuffers; ++i) buffers.push_back(make_buffer(launch(nowhere, 0, image.size()), 1));
  unsigned next = 0;
  expect_bounded_flood("PREPARED", [&] { return call_of(stream_, buffers[next++ % kBuffers], Opcode::Prepared); });
  expect_bounded("PREPARED, judged again", [&] {
    for (int round = 0; round < 4; ++round) {
      change_regions();
      for (const BufferName& buffer : buffers) tenant_.driver.submit(call_of(stream_, buffer, Opcode::Prepared));
      expect_all_ok(buffers.size());
    }
  });
}

void WorstQuantaOfBlocks::patch() {
  StreamHandle nowhere;
  const auto image = empty_kernel();
  load(0, image);
  for (const Row& row : {Row{"a FILL", tenant_.driver.fill(nowhere, region_, 0, wire::kStickBytes, 1)},
                         Row{"a nest", deepest_nest(nowhere)}, Row{"a launch", launch(nowhere, 0, image.size())}}) {
    const auto buffer = make_buffer(row.block);
    expect_bounded_flood("PATCH of " + row.what, [&] { return patch_of(stream_, buffer); });
    destroy(buffer);
  }
  const auto buffer = make_buffer(tenant_.driver.event_signal(nowhere, 1));
  expect_bounded_flood("PATCH of a signal", [&] { return patch_of(stream_, buffer); });
}

// Blocks of a queue that is reset end in steps of their streams.
TEST_F(WorstQuanta, OfQueueResetsAreBounded) {
  expect_bounded("reset of a full control-block queue", [&] {
    const StreamHandle zero;
    for (int i = 0; i < 4; ++i) {
      auto stream = tenant_.driver.open_stream().value();
      fill_stream(stream, zero);
    }
    ASSERT_TRUE(tenant_.driver.reset_queue(wire::kControlBlockQueue));
    begin_again();
  });
}

TEST_P(WorstQuantaOfBlocks, AreBounded) { measure(GetParam()); }

std::vector<Opcode> opcodes() {
  std::vector<Opcode> all;
  all.reserve(static_cast<std::size_t>(wire::kLastOpcode) + 1);
  for (unsigned i = 0; i <= static_cast<unsigned>(wire::kLastOpcode); ++i) all.push_back(static_cast<Opcode>(i));
  return all;
}

INSTANTIATE_TEST_SUITE_P(Each, WorstQuantaOfBlocks, testing::ValuesIn(opcodes()),
                         [](const auto& row) { return std::string(wire::name(row.param)); });

}  // namespace
}  // namespace counts

// SPDX-License-Identifier: Apache-2.0
// Of control blocks.
#include <cstring>

#include "shared/crc32c.hpp"
#include "tests/bench/counts/worst_quanta.hpp"
#include "tests/support/kernel_image.hpp"

namespace counts {
namespace {

using raw::RawDriver;
using raw::StreamHandle;
using wire::AdminCommand;
using wire::ControlBlock;
using wire::Opcode;
using wire::Outcome;

TEST_F(WorstQuanta, OfBlocks) {
  RawDriver& driver = tenant_.driver;
  StreamHandle stream;
  expect_bounded("NOP", {Opcode::Nop}, [&] { flood_blocks([&] { return driver.nop(stream); }); });
  expect_bounded("FILL of a stick", {Opcode::Fill},
                 [&] { flood_blocks([&] { return driver.fill(stream, region_, 0, 128, 1); }); });
  expect_bounded("FILL of 256 KiB", {Opcode::Fill},
                 [&] { flood_blocks([&] { return driver.fill(stream, region_, 0, 256 * wire::kKiB, 1); }); });
  std::uint64_t value = 0;
  expect_bounded("EVENT_SIGNAL", {Opcode::EventSignal},
                 [&] { flood_blocks([&] { return driver.event_signal(stream, ++value); }); });
  expect_bounded("EVENT_WAIT, fulfilled", {Opcode::EventWait},
                 [&] { flood_blocks([&] { return driver.event_wait(stream, stream, value); }); });
}

TEST_F(WorstQuanta, OfTransfers) {
  RawDriver& driver = tenant_.driver;
  StreamHandle stream;
  const auto from = RawDriver::host(kSource), to = RawDriver::device(region_, 0);
  const auto transfers = [&](const std::string& what, const wire::Endpoint& source, const wire::Endpoint& destination,
                             std::uint64_t bytes) {
    expect_bounded(what, {Opcode::Dma},
                   [&] { flood_blocks([&] { return driver.dma(stream, source, destination, bytes); }); });
  };
  transfers("DMA of a stick to the card", from, to, 128);
  transfers("DMA of 256 KiB to the card", from, to, 256 * wire::kKiB);
  transfers("DMA of 256 KiB from the card", to, from, 256 * wire::kKiB);
  transfers("DMA of 256 KiB on the card", to, RawDriver::device(region_, 2 * wire::kMiB), 256 * wire::kKiB);
  constexpr std::uint64_t kBytes = 256 * wire::kKiB;
  const std::uint32_t checksum = wire::crc32c(0, driver.at<std::byte>(kSource), kBytes);
  expect_bounded("DMA of 256 KiB with its checksum", {Opcode::Dma}, [&] {
    flood_blocks([&] {
      auto block = driver.dma(stream, from, to, kBytes);
      block.payload.dma.flags = wire::kDmaChecksum;
      block.payload.dma.checksum = checksum;
      driver.seal(block);
      return block;
    });
  });
}

TEST_F(WorstQuanta, OfStridedTransfers) {
  RawDriver& driver = tenant_.driver;
  StreamHandle stream;
  const auto strided = [&](const std::string& what, std::uint32_t element, std::vector<wire::StridedLevel> levels) {
    expect_bounded(what, {Opcode::Dma}, [&] {
      flood_blocks([&] {
        return driver.strided(stream, RawDriver::host(kSource), RawDriver::device(region_, 0), element, levels);
      });
    });
  };
  strided("DMA of scattered bytes", 1, {{64 * 1024, 2, 3}});
  strided("DMA of the same element", 8, {{64 * 1024, 0, 1}});
  strided("DMA of short rows", 2, {{4, 1, 1}, {16 * 1024, 5, 7}});
  strided("DMA of loops within loops", 4,
          {{2, 1, 1}, {2, 3, 3}, {2, 7, 7}, {2, 15, 15}, {2, 31, 31}, {2, 63, 63}, {2, 127, 127}, {64, 255, 255}});
}

// The kernel of several images, which is all that they do: to begin and to end.
struct Programs {
  static constexpr std::uint64_t kStride = 2 * wire::kMiB;

  // `count` of them, `bytes` long each; 0: as it was built.
  Programs(RawDriver& driver, std::vector<std::byte> image, unsigned count, std::uint64_t bytes)
      : region(driver.acquire(count * kStride, wire::RegionType::Program).value()),
        image_bytes(std::max<std::uint64_t>(bytes, image.size())),
        number(count) {
    image.resize(image_bytes);
    auto& header = *reinterpret_cast<wire::ImageHeader*>(image.data());
    header.image_bytes = image_bytes;
    header.max_correction_bytes = wire::kMaxCorrectionBytes;  // which it does not look at
    for (unsigned i = 0; i < count; ++i) {
      image.back() = static_cast<std::byte>(bytes == 0 ? image.back() : static_cast<std::byte>(i));
      header.crc32c = 0;
      header.crc32c = wire::crc32c(0, image.data(), image.size());
      std::memcpy(driver.at<std::byte>(wire::kHostMemoryOffset), image.data(), image.size());
      const auto end = driver.run(driver.dma(stream, RawDriver::host(wire::kHostMemoryOffset),
                                             RawDriver::device(region, i * kStride), image.size()));
      EXPECT_EQ(end.outcome, Outcome::Ok) << wire::name(end.status);
    }
  }
  // Each in turn.
  ControlBlock launch(RawDriver& driver, StreamHandle& on, std::uint64_t core_mask) {
    return driver.compute(on, region, at++ % number * kStride, image_bytes, core_mask);
  }

  raw::RegionHandle region;
  std::uint64_t image_bytes;
  unsigned number;
  unsigned at = 0;
  StreamHandle stream;  // after it was used here: go on with it
};

TEST_F(WorstQuanta, OfLaunches) {
  RawDriver& driver = tenant_.driver;
  const auto image = svp::test::kernel_image(card_.context().card(), "empty");
  Programs one(driver, image, 1, 0);
  StreamHandle& stream = one.stream;
  for (const std::uint64_t mask : {1u, 2u, 3u}) {
    expect_bounded("COMPUTE on cores " + std::to_string(mask), {Opcode::Compute},
                   [&] { flood_blocks([&] { return one.launch(driver, stream, mask); }); });
  }
  expect_bounded("COMPUTE with eight operands and corrections", {Opcode::Compute}, [&] {
    flood_blocks([&] {
      auto block = one.launch(driver, stream, 1);
      block.payload.compute.correction = RawDriver::device(one.region, wire::kMiB);
      block.payload.compute.correction_bytes = wire::kMaxCorrectionBytes;
      for (wire::Segment& segment : block.payload.compute.segments) {
        segment = {region_.id, 0, region_.bytes, region_.generation, wire::kSegmentReadWrite, {}};
      }
      driver.seal(block);
      return block;
    });
  });
  expect_bounded("COMPUTE with the next DMA ahead", {Opcode::Compute, Opcode::Dma}, [&] {
    bool transfer = true;
    flood_blocks([&] {
      transfer = !transfer;
      if (!transfer) return one.launch(driver, stream, 2);
      auto block = driver.dma(stream, RawDriver::host(kSource), RawDriver::device(one.region, wire::kMiB),
                              wire::kMaxCorrectionBytes);
      block.payload.dma.flags = wire::kDmaAhead;
      driver.seal(block);
      return block;
    });
  });
}

// More than a function has areas for: each is checked and copied each time, and the copy is one piece.
TEST_F(WorstQuanta, OfLaunchesOfNewImages) {
  RawDriver& driver = tenant_.driver;
  const auto image = svp::test::kernel_image(card_.context().card(), "empty");
  Programs many(driver, image, wire::kExecutionAreas + 1, wire::kMaxImageBytes);
  expect_bounded(
      "COMPUTE of the largest images", {Opcode::Compute},
      [&] { flood_blocks([&] { return many.launch(driver, many.stream, 1); }); }, 90'000);
}

TEST_F(WorstQuanta, OfCalls) {
  RawDriver& driver = tenant_.driver;
  const auto image = svp::test::kernel_image(card_.context().card(), "empty");
  Programs one(driver, image, 1, 0);
  StreamHandle& stream = one.stream;
  StreamHandle nowhere;
  const auto buffer = make_buffer(driver, driver.fill(nowhere, region_, 0, 128, 1));
  expect_bounded("CALL of 64 FILLs", {Opcode::Call},
                 [&] { flood_blocks([&] { return driver.addressed(stream, call_of(buffer)); }); });
  expect_bounded("PATCH", {Opcode::Patch}, [&] {
    flood_blocks([&] {
      ControlBlock patch{};
      patch.header.opcode = Opcode::Patch;
      patch.payload.patch = {.buffer = buffer.buffer,
                             .block = 1,
                             .epoch = buffer.epoch,
                             .offset = kSource,
                             .bytes = wire::kBufferBlockBytes,
                             .reserved = {}};
      return driver.addressed(stream, patch);
    });
  });
  const auto kernel = make_buffer(driver, one.launch(driver, nowhere, 1), 1);
  expect_bounded("PREPARED", {Opcode::Prepared},
                 [&] { flood_blocks([&] { return driver.addressed(stream, call_of(kernel, Opcode::Prepared)); }); });
}

// Regions have come since: each buffer is judged once more, 64 launches of eight operands.
TEST_F(WorstQuanta, OfCallsThatAreJudgedAgain) {
  RawDriver& driver = tenant_.driver;
  const auto image = svp::test::kernel_image(card_.context().card(), "empty");
  Programs one(driver, image, 1, 0);
  StreamHandle nowhere;
  auto block = one.launch(driver, nowhere, 1);
  for (wire::Segment& segment : block.payload.compute.segments) {
    segment = {region_.id, 0, region_.bytes, region_.generation, wire::kSegmentReadWrite, {}};
  }
  expect_bounded("BUFFER_CREATE, 64 launches", {AdminCommand::BufferCreate}, [&] { (void)make_buffer(driver, block); });
  constexpr unsigned kBuffers = 24;
  std::vector<BufferHandle> buffers;
  std::vector<StreamHandle> streams;
  for (unsigned i = 0; i < kBuffers; ++i) {
    buffers.push_back(make_buffer(driver, block));
    streams.push_back(driver.open_stream().value());
  }
  expect_bounded("CALL of 64 launches, judged again", {Opcode::Call}, [&] {
    EXPECT_EQ(driver.release(driver.acquire(2 * wire::kMiB).value()).outcome, Outcome::Ok);
    for (unsigned i = 0; i < kBuffers; ++i) driver.submit(driver.addressed(streams[i], call_of(buffers[i])));
    for (const raw::Ended& end : driver.wait_for(kBuffers)) {
      ASSERT_EQ(end.completion.outcome, Outcome::Ok) << wire::name(end.completion.status);
    }
  });
}

// A wait that may close a circle of waits looks along the chain; so does each signal at the beginning of one.
TEST_F(WorstQuanta, OfChainsOfWaits) {
  RawDriver& driver = tenant_.driver;
  constexpr unsigned kHeads = 30;
  const auto make_chain = [&](std::vector<StreamHandle>& streams) {
    StreamHandle zero;
    for (std::size_t i = streams.size(); i-- != kHeads;) {
      driver.submit(driver.event_wait(streams[i], i + 1 == streams.size() ? zero : streams[i + 1], 1));
      driver.submit(driver.event_signal(streams[i], 1));
      settle();
    }
  };
  expect_bounded("EVENT_WAIT in front of a chain of 97 waits", {Opcode::EventWait}, [&] {
    begin_again();
    auto streams = open_all();
    make_chain(streams);
    for (unsigned i = 0; i < kHeads; ++i) {
      driver.submit(driver.event_signal(streams[i], 1));
      driver.submit(driver.event_wait(streams[i], streams[kHeads], 1));
    }
    settle();
  });
  expect_bounded("EVENT_SIGNAL behind a chain of 97 waits", {Opcode::EventSignal}, [&] {
    begin_again();
    auto streams = open_all();
    make_chain(streams);
    for (unsigned i = 0; i < kHeads; ++i) {
      driver.submit(driver.event_wait(streams[i], streams[kHeads], 1));
      driver.submit(driver.event_signal(streams[i], 1));
      settle();
    }
    for (std::uint64_t value = 2; value < 9; ++value) {
      for (unsigned i = 0; i < kHeads; ++i) driver.submit(driver.event_signal(streams[i], value));
      settle();
    }
  });
}

}  // namespace
}  // namespace counts

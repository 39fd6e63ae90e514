// SPDX-License-Identifier: Apache-2.0
// P5, strided DMA: the card executes loops between pinned memory and its own, the host's general executor
// (copy_strided) the same loops between two buffers of this process. Both move elements of 2 bytes.
#include <fmt/format.h>

#include <array>
#include <cstring>
#include <random>

#include "host_driver/tensor/strided_copy.hpp"
#include "tests/bench/card/block_client.hpp"
#include "tests/bench/card/placement.hpp"
#include "tests/bench/card/session.hpp"
#include "tests/bench/card/statistics.hpp"
#include "tests/support/blocks.hpp"
#include "tests/support/nest_loops.hpp"

namespace bench {

namespace {

constexpr std::uint64_t kMemory = 8 * wire::kMiB;
constexpr std::uint32_t kElement = 2;

struct Case {
  const char* what;
  std::vector<wire::StridedLevel> levels;  // of 1 MiB
};

// A tensor of 2048 x 256 elements, as it lies in rows, and cut into sticks.
const Case kCases[] = {
    {"runs of 1 KiB", {{512, 1, 1}, {1024, 512, 640}}},
    {"runs of a stick", {{64, 1, 1}, {2048, 256, 64}, {4, 64, 131072}}},
    {"runs of 16 bytes", {{8, 1, 1}, {65536, 8, 16}}},
    {"transposed", {{2048, 256, 1}, {256, 1, 2048}}},
    {"every other element", {{524288, 2, 3}}},
};

class StridedBench {
 public:
  explicit StridedBench(Session& session)
      : session_(session), card_(session.card()), client_(card_.device()), memory_(card_, kMemory) {}

  void measure(const Case& c) {
    const wire::Endpoint host = to_device_block(memory_.out, memory_.place, kMemory).payload.dma.source;
    const wire::Endpoint card = to_device_block(memory_.out, memory_.place, kMemory).payload.dma.destination;
    const auto block = svp::test::Blocks::strided(host, card, kElement, c.levels);
    const auto loops = svp::test::loops_of(c.levels);
    Row row{.id = "P5",
            .what = fmt::format("strided DMA to the card, 1.00 MiB, {}", c.what),
            .unit = Unit::BytesPerSecond,
            .limit = "the host's executor, same loops",
            .checked = "every byte, fresh data each round"};
    for (unsigned round = 0; round < session_.options().rounds; ++round) {
      check(block, loops);
      row.add(bandwidth([&] { client_.run(block); }, block), bandwidth([&] { on_the_host(loops); }, block));
    }
    session_.add(std::move(row));
  }

 private:
  void on_the_host(const svp::StridedLoops& loops) {
    svp::copy_strided({&loops, 1}, svp::ElementFormat::Int16, from_, svp::ElementFormat::Int16, to_);
  }
  void check(const wire::ControlBlock& block, const svp::StridedLoops& loops) {
    for (std::size_t i = 0; i + 8 <= kMemory; i += 8) {
      const std::uint64_t word = random_();
      std::memcpy(&from_[i], &word, 8);
    }
    std::memcpy(memory_.out.data(), from_.data(), kMemory);
    std::memset(memory_.back.data(), 0, kMemory);
    std::ranges::fill(to_, std::byte{0});
    client_.run(to_device_block(memory_.back, memory_.place, kMemory));
    client_.run(block);
    client_.run(from_device_block(memory_.place, memory_.back, kMemory));
    on_the_host(loops);
    require(std::memcmp(to_.data(), memory_.back.data(), kMemory) == 0, "the card moved other bytes than the host");
  }
  template <typename Run>
  double bandwidth(Run run, const wire::ControlBlock& block) {
    const double ns = median_time(session_.amount(40), run);
    return static_cast<double>(block.payload.dma.bytes) / ns * 1e9;
  }

  Session& session_;
  svp::Context& card_;
  BlockClient client_;
  TransferMemory memory_;
  std::vector<std::byte> from_ = std::vector<std::byte>(kMemory);
  std::vector<std::byte> to_ = std::vector<std::byte>(kMemory);
  std::mt19937_64 random_{20261123};
};

}  // namespace

void measure_strided(Session& session) {
  StridedBench bench(session);
  const Apart apart(session.card());
  for (const Case& c : kCases) bench.measure(c);
}

}  // namespace bench

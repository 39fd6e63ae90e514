// SPDX-License-Identifier: Apache-2.0
// P5: DMA between pinned memory and the card, one control block at a time, submit to completion. Buffers are used again
// and again on both sides, as memcpy's are: as warm as repetition makes them.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "tests/bench/card/block_client.hpp"
#include "tests/bench/card/placement.hpp"
#include "tests/bench/card/session.hpp"
#include "tests/bench/card/statistics.hpp"

namespace bench {

namespace {

constexpr std::uint64_t kLargest = 64 * wire::kMiB;
constexpr std::uint64_t kSmallest = wire::kStickBytes;

// Some 512 MiB a round, at least a few and at most many repetitions.
unsigned repetitions(const Session& session, std::uint64_t bytes) {
  return session.amount(static_cast<unsigned>(std::clamp<std::uint64_t>(512 * wire::kMiB / bytes, 10, 5000)));
}

// Ordinary memory of this process, touched.
class HostCopy {
 public:
  explicit HostCopy(std::uint64_t bytes) : from_(bytes, std::byte{1}), to_(bytes, std::byte{2}) {}
  void run(std::uint64_t bytes) {
    std::memcpy(to_.data(), from_.data(), bytes);
    asm volatile("" ::"r"(to_.data()) : "memory");
  }

 private:
  std::vector<std::byte> from_;
  std::vector<std::byte> to_;
};

class TransferBench {
 public:
  explicit TransferBench(Session& session)
      : session_(session), card_(session.card()), client_(card_.device()), memory_(card_, kLargest) {}

  // Fresh data there and back again, every byte compared; the destination is wiped before.
  void check(std::uint64_t bytes) {
    for (std::size_t i = 0; i + 8 <= bytes; i += 8) {
      const std::uint64_t word = random_();
      std::memcpy(memory_.out.data() + i, &word, 8);
    }
    std::memset(memory_.back.data(), 0, bytes);
    client_.run(to_device_block(memory_.out, memory_.place, bytes));
    client_.run(from_device_block(memory_.place, memory_.back, bytes));
    require(std::memcmp(memory_.out.data(), memory_.back.data(), bytes) == 0,
            fmt::format("{} bytes came back changed", bytes));
  }

  double to_device(std::uint64_t bytes) { return bandwidth(to_device_block(memory_.out, memory_.place, bytes), bytes); }
  double from_device(std::uint64_t bytes) {
    return bandwidth(from_device_block(memory_.place, memory_.back, bytes), bytes);
  }
  double host(std::uint64_t bytes) {
    const double ns = median_time(repetitions(session_, bytes), [&] { copy_.run(bytes); });
    return static_cast<double>(bytes) / ns * 1e9;
  }

 private:
  double bandwidth(const wire::ControlBlock& block, std::uint64_t bytes) {
    const double ns = median_time(repetitions(session_, bytes), [&] { client_.run(block); });
    return static_cast<double>(bytes) / ns * 1e9;
  }

  Session& session_;
  svp::Context& card_;
  BlockClient client_;
  TransferMemory memory_;
  HostCopy copy_{kLargest};
  std::mt19937_64 random_{20260305};
};

void measure_size(Session& session, TransferBench& bench, std::uint64_t bytes) {
  const auto size = format_value(static_cast<double>(bytes), Unit::Bytes);
  Row there{.id = "P5",
            .what = "DMA to the card, pinned, " + size,
            .unit = Unit::BytesPerSecond,
            .limit = "memcpy, same size",
            .goal = session.goal(at_least(0.8), at_least(0.5)),
            .checked = "every byte, fresh data each round"};
  Row back = there;
  back.what = "DMA from the card, pinned, " + size;
  for (unsigned round = 0; round < session.options().rounds; ++round) {
    bench.check(bytes);
    const double host = bench.host(bytes);
    there.add(bench.to_device(bytes), host);
    back.add(bench.from_device(bytes), host);
    bench.check(bytes);
  }
  session.add(std::move(there));
  session.add(std::move(back));
}

// The smallest size of the sweep that runs at half of the peak. (Not "from which on": the largest leave the caches.)
double half_peak_size(const std::vector<std::pair<std::uint64_t, double>>& sweep) {
  double peak = 0;
  for (const auto& point : sweep) peak = std::max(peak, point.second);
  const auto first = std::ranges::find_if(sweep, [&](const auto& point) { return point.second >= peak / 2; });
  return static_cast<double>(first->first);
}

void measure_sweep(Session& session, TransferBench& bench) {
  constexpr double kWanted = 16 * wire::kKiB;
  Row there{.id = "P5",
            .what = "size at which DMA to the card reaches half of its peak",
            .unit = Unit::Bytes,
            .limit = "as wanted",
            .checked = "every byte, at each size"};
  // With the array the peak is memcpy's, and an empty block alone takes as long as tens of KiB.
  if (!session.has_array()) there.goal = at_most(1);
  Row back = there;
  back.what = "size at which DMA from the card reaches half of its peak";
  std::string curve;
  for (unsigned round = 0; round < session.options().rounds; ++round) {
    std::vector<std::pair<std::uint64_t, double>> to_card;
    std::vector<std::pair<std::uint64_t, double>> from_card;
    for (std::uint64_t bytes = kSmallest; bytes <= kLargest; bytes *= 2) {
      bench.check(bytes);
      to_card.emplace_back(bytes, bench.to_device(bytes));
      from_card.emplace_back(bytes, bench.from_device(bytes));
    }
    there.add(half_peak_size(to_card), kWanted);
    back.add(half_peak_size(from_card), kWanted);
    if (round != 0) continue;
    for (std::size_t i = 0; i < to_card.size(); i += 2) {
      curve += fmt::format("{}{} {} / {}", i == 0 ? "" : ", ",
                           format_value(static_cast<double>(to_card[i].first), Unit::Bytes),
                           format_value(to_card[i].second, Unit::BytesPerSecond),
                           format_value(from_card[i].second, Unit::BytesPerSecond));
    }
  }
  session.add(std::move(there));
  session.add(std::move(back));
  session.report().note("P5 sweep, to / from the card, first round: " + curve);
}

}  // namespace

void measure_transfers(Session& session) {
  TransferBench bench(session);
  const Apart apart(session.card());
  bench.check(kLargest);
  for (const std::uint64_t bytes : {wire::kMiB, kLargest}) measure_size(session, bench, bytes);
  measure_sweep(session, bench);
}

}  // namespace bench

// SPDX-License-Identifier: Apache-2.0
// A card whose emulator counts what hart 0 executes. The cheapest of many batches depends on how busy the machine is
// far less than times do: a change of the firmware is seen in it at once.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "host_driver/base/unique_fd.hpp"
#include "host_driver/frontend/context.hpp"
#include "tests/bench/card/block_client.hpp"
#include "tests/bench/counts/counters.hpp"

namespace counts {

// Per control block.
struct Cost {
  double blocks = 0;  // translated ones
  double instructions = 0;
  double lookups = 0;
  double misses = 0;
};

// What a block may cost at most.
struct Bounds {
  double instructions = 0;
  double lookups = 0;
};

struct Counted {
  Cost whole;
  std::map<std::string, Cost> functions;  // of the firmware and of the engine, by demangled name; others: "(kernel)"
};

struct CountingOptions {
  unsigned virtual_functions = 0;
  unsigned ports = 0;               // CardOptions::ports
  bool elides_corrections = false;  // RuntimeOptions::elide_corrections
};

class CountingCard {
 public:
  // Boots a card of one core whose PF is the context's. Throws svp::Error, or bench::MeasurementError when the emulator
  // loads no plugin.
  explicit CountingCard(const CountingOptions& options = {});
  ~CountingCard();

  svp::Context& context() { return *context_; }
  const svp::Card& card() const { return context_->card(); }

  static constexpr std::size_t kBatch = wire::kStreamCredits / 2;  // one submission of run_many()

  // What `block` costs in batches of kBatch that lie in the ring at once, the cheapest of `batches`. What the card does
  // before a batch arrives and after it has ended (it polls, it beats) is counted as well: every batch counts at least
  // what its blocks cost, and the cheapest one has the least of the rest. On a busy machine it has more, never less.
  Counted in_batches(const wire::ControlBlock& block, std::size_t batches);
  // The same, but it ends with the first batch that is below the bounds: on a busy machine it takes more batches to
  // find one, and a block that costs more has none. The last batch when none was.
  Cost below(const wire::ControlBlock& block, const Bounds& bounds);
  // Submitted and waited for one after the other. The polls of the waiting card are in it: on a busy machine they are
  // more.
  Counted one_by_one(const wire::ControlBlock& block, std::size_t blocks);
  // The same as in_batches() of what a program launches: `launch` is called kBatch times, then all are waited for.
  Counted launched(const std::function<void()>& launch, std::size_t batches);
  Cost launched_below(const std::function<void()>& launch, const Bounds& bounds);

  // Instructions of the longest iteration of hart 0's loop that began and ended in `work`.
  std::uint64_t longest_iteration(const std::function<void()>& work);

 private:
  using Snapshot = std::vector<Totals>;  // of each row

  static constexpr std::size_t kMostBatches = 200'000;      // some ten seconds
  static constexpr std::size_t kMostLaunchBatches = 2'000;  // likewise, of launches

  Snapshot snapshot() const;
  Counted cheapest(const std::function<void()>& batch, std::size_t batches);
  Cost first_below(const std::function<void()>& batch, const Bounds& bounds, std::size_t batches);
  void launch_batch(const std::function<void()>& launch);
  Totals sum() const;  // over the rows
  Counted cost(const Snapshot& before, const Snapshot& after, std::size_t blocks) const;

  svp::UniqueFd file_;
  Table* table_ = nullptr;
  std::unique_ptr<svp::Context> context_;
  std::unique_ptr<bench::BlockClient> client_;
};

// A transfer of one stick from pinned memory to the card, as long as it exists.
class StickTransfer {
 public:
  explicit StickTransfer(svp::Context& context)
      : from_(context.host_memory().allocate(wire::kStickBytes)),
        to_(context.allocator().allocate(wire::kStickBytes)),
        block_(bench::to_device_block(from_, context.runtime().allocator().resolve(to_->allocation_index()),
                                      wire::kStickBytes)) {}
  const wire::ControlBlock& block() const { return block_; }

 private:
  svp::PinnedBuffer from_;
  std::shared_ptr<const svp::DeviceStorage> to_;
  wire::ControlBlock block_;
};

}  // namespace counts

// SPDX-License-Identifier: Apache-2.0
// F13 and F40: a raw client that breaks the rules of rings, and one that sends random requests.
#include <algorithm>
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "host_driver/campaign/raw_client.hpp"
#include "host_driver/campaign/scenarios.hpp"
#include "host_driver/raw/attempts.hpp"
#include "host_driver/raw/bare_slot.hpp"
#include "host_driver/raw/raw_driver.hpp"
#include "shared/memory_order.hpp"

namespace flex::campaign {

namespace {

using raw::RawBuffer;
using raw::RawDriver;
using wire::Outcome;

constexpr std::uint32_t kStick = wire::kStickBytes;

}  // namespace

// ---- chains -------------------------------------------------------------------------------------------------------------

namespace {

class Chains {
 public:
  Chains(Trial& trial, RawClient& stranger) : trial_(trial), stranger_(stranger), driver_(stranger.driver()) {
    region_ = driver_.acquire(wire::kGranuleBytes).value();
    (void)driver_.run(driver_.fill(stream_, region_, 0, 4096, kPattern));
  }

  void place_block() {
    auto block = driver_.fill(stream_, region_, 0, 4096, ~kPattern);
    --stream_.next_sequence;  // it is not to be executed
    std::memcpy(stranger_.slot().window().data() + raw::block_at(0), &block, sizeof block);
  }
  raw::RawRing& ring() { return driver_.ring(wire::kControlBlockQueue); }

  // The head comes back, and nothing was executed.
  bool comes_back(std::uint16_t id) {
    const auto limit = Trial::Clock::now() + trial_.patience();
    while (Trial::Clock::now() < limit) {
      if (const auto used = ring().poll()) return ++back_, used->id == id;
      stranger_.slot().pump();
    }
    return false;
  }
  std::uint64_t violations() {
    return driver_.admin(driver_.admin_request(wire::AdminCommand::Stats)).values.stats.ring_violations;
  }
  bool untouched() {
    const std::uint64_t at = wire::kHostMemoryOffset;
    const auto copy = driver_.run(driver_.dma(stream_, RawDriver::device(region_, 0), RawDriver::host(at), 4096));
    const auto* words = driver_.at<std::uint64_t>(at);
    return copy.outcome == Outcome::Ok &&
           std::all_of(words, words + 512, [](std::uint64_t word) { return word == kPattern; });
  }
  std::size_t back() const { return back_; }

 private:
  static constexpr std::uint64_t kPattern = 0x1122'3344'5566'7788;
  Trial& trial_;
  RawClient& stranger_;
  RawDriver& driver_;
  raw::RegionHandle region_{};
  raw::StreamHandle stream_;
  std::size_t back_ = 0;
};

// NEXT on every descriptor: the chain closes on itself and is as long as the ring.
void publish_circle(raw::RawRing& ring) {
  std::uint16_t at = ring.next_avail();
  bool wrap = ring.avail_wrap();
  std::vector<std::pair<std::uint16_t, bool>> places;
  for (unsigned i = 0; i < ring.size(); ++i) {
    places.emplace_back(at, wrap);
    if (++at == ring.size()) at = 0, wrap = !wrap;
  }
  for (auto place = places.rbegin(); place != places.rend(); ++place) {
    const auto flags = static_cast<std::uint16_t>(wire::avail_flags(place->second) | wire::kDescNext);
    wire::store_relaxed(ring.words(place->first).address, raw::block_at(0));
    wire::store_release(ring.words(place->first).tail, wire::pack_tail({kStick, 7, flags}));
  }
  ring.skip(ring.size());
  ring.expect_chain(7, ring.size());
}

}  // namespace

void bad_chains(Trial& trial) {
  trial.innocent();
  RawClient stranger(trial);
  if (!stranger.driver().bring_up()) return trial.fired(false, "the function does not come up");
  Chains chains(trial, stranger);
  const RawBuffer block{raw::block_at(0), kStick, false}, end{raw::completion_at(0), kStick, true};
  const std::vector<std::vector<RawBuffer>> all{{block, block, end},
                                                {block, end, end},
                                                {end, block},
                                                {end},
                                                {block},
                                                std::vector<RawBuffer>(9, block),
                                                std::vector<RawBuffer>(100, end),
                                                {{raw::block_at(0), 0, false}, end},
                                                {{0, kStick, false}, end},
                                                {{wire::kQueueBlock.offset, kStick, false}, end},
                                                {{0x8000'0000, kStick, false}, end},
                                                {{raw::block_at(0), ~0u, false}, end},
                                                {block, {wire::kQueueBlock.offset, kStick, true}},
                                                {block, {0, kStick, true}}};
  const std::uint64_t before = chains.violations();
  trial.let_loose();
  bool all_back = true;
  for (const auto& chain : all) {
    chains.place_block();
    chains.ring().add(3, chain);
    all_back = all_back && chains.comes_back(3);
  }
  chains.place_block();
  publish_circle(chains.ring());
  all_back = all_back && chains.comes_back(7);
  // Published in part: the head says NEXT, and what follows has not been made available.
  chains.ring().add_raw(5, raw::block_at(0), kStick, wire::kDescNext);
  chains.ring().expect_chain(5, 1);
  all_back = all_back && chains.comes_back(5);
  trial.fired(chains.back() != 0, std::to_string(chains.back()) + " bad chains");
  const std::uint64_t counted = chains.violations() - before;
  trial.detected(all_back && counted == all.size() + 2, std::to_string(counted) + " violations counted");
  trial.contained(chains.untouched(), "nothing was executed");
  trial.contained();
  const std::string works = stranger.works();
  trial.recovered(works.empty(), works.empty() ? "brought up, good job" : works);
}

// ---- fuzzing ------------------------------------------------------------------------------------------------------------

namespace {

// Overwrites blocks, rings and host memory of a window while the card reads them.
class Mutator {
 public:
  Mutator(std::span<std::byte> window, std::uint64_t seed)
      : thread_([this, window, seed](const std::stop_token& stop) {
          std::mt19937_64 random(seed);
          while (!stop.stop_requested()) {
            const wire::Block& block = kTargets[random() % std::size(kTargets)];
            const std::uint64_t at = block.offset + random() % (block.bytes / 8) * 8;
            wire::store_relaxed(*reinterpret_cast<std::uint64_t*>(window.data() + at), random());
            changes_.fetch_add(1, std::memory_order_relaxed);
            std::this_thread::yield();
          }
        }) {}
  std::uint64_t changes() const { return changes_.load(); }

 private:
  static constexpr wire::Block kTargets[] = {
      wire::kControlBlocks, wire::kAdminRequests, {wire::kHostMemoryOffset, 4 * wire::kMiB}};
  std::atomic<std::uint64_t> changes_{0};
  std::jthread thread_;  // bounded: it looks at its stop token between two stores
};

}  // namespace

void fuzzing_under_mutation(Trial& trial) {
  constexpr unsigned kAttempts = 1500, kAtOnce = 16;
  trial.innocent();
  RawClient stranger(trial);
  RawDriver& driver = stranger.driver();
  if (!driver.bring_up()) return trial.fired(false, "the function does not come up");
  raw::Targets targets;
  targets.window_bytes = stranger.slot().window().size();
  targets.generation = driver.generation();
  targets.function_index = kThird;
  targets.functions = trial.scenario().shape.virtual_functions;
  targets.tensor = driver.acquire(wire::kGranuleBytes).value();
  targets.program = driver.acquire(wire::kGranuleBytes, wire::RegionType::Program).value();
  targets.released = driver.acquire(wire::kGranuleBytes).value();
  (void)driver.release(targets.released);
  for (const Region& region : trial.innocent().regions()) {
    targets.foreign.push_back({region.base.region_id, region.generation, region.bytes});
  }
  raw::Attempts attempts(targets, trial.seed());
  trial.let_loose();
  std::uint64_t ended = 0, refused = 0, changes = 0;
  std::string wrong;
  {
    Mutator mutator(stranger.slot().window(), trial.seed());
    raw::StreamHandle stream;
    for (unsigned done = 0; done < kAttempts && wrong.empty(); done += kAtOnce) {
      for (unsigned i = 0; i < kAtOnce; ++i) {
        const wire::ControlBlock block = attempts.control_block(stream);
        (void)driver.submit_sticks(block, std::clamp<unsigned>(block.header.sticks, 1, wire::kMaxControlBlockSticks));
      }
      try {
        for (const raw::Ended& end : driver.wait_for(kAtOnce)) {
          ++ended;
          refused += end.completion.outcome == Outcome::Ok ? 0 : 1;
        }
      } catch (const raw::Broken& broken) {
        wrong = broken.what();
      }
    }
    changes = mutator.changes();
  }
  trial.fired(ended != 0 && changes != 0,
              std::to_string(ended) + " blocks, " + std::to_string(changes) + " words changed meanwhile");
  trial.detected(wrong.empty() && refused != 0,
                 wrong.empty() ? "each ended exactly once, " + std::to_string(refused) + " of them refused" : wrong);
  trial.contained();
  const std::string works = stranger.works();
  trial.recovered(works.empty(), works.empty() ? "brought up, good job" : works);
}

}  // namespace flex::campaign

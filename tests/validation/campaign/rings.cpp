// SPDX-License-Identifier: Apache-2.0
// F13: a raw client that breaks the rules of rings.
#include <algorithm>
#include <string>
#include <vector>

#include "shared/memory_order.hpp"
#include "tests/validation/campaign/raw_client.hpp"
#include "tests/validation/campaign/scenarios.hpp"
#include "tests/validation/raw/bare_slot.hpp"
#include "tests/validation/raw/raw_driver.hpp"

namespace svp::campaign {

namespace {

using raw::RawBuffer;
using raw::RawDriver;
using wire::Outcome;

constexpr std::uint32_t kStick = wire::kStickBytes;

}  // namespace

// ---- chains ---------------------------------------------------------------------------------------------------------

namespace {

class Chains {
 public:
  Chains(ScenarioContext& context, RawClient& client) : context_(context), client_(client), driver_(client.driver()) {
    region_ = driver_.acquire(wire::kGranuleBytes).value();
    (void)driver_.run(driver_.fill(stream_, region_, 0, 4096, kPattern));
  }

  void place_block() {
    auto block = driver_.fill(stream_, region_, 0, 4096, ~kPattern);
    --stream_.next_sequence;  // it is not to be executed
    std::memcpy(client_.slot().window().data() + raw::block_at(0), &block, sizeof block);
  }
  raw::RawRing& ring() { return driver_.ring(wire::kControlBlockQueue); }

  // The head comes back, and nothing was executed.
  bool comes_back(std::uint16_t id) {
    const auto limit = ScenarioContext::Clock::now() + context_.timeout();
    while (ScenarioContext::Clock::now() < limit) {
      if (const auto used = ring().poll()) return ++back_, used->id == id;
      client_.slot().pump();
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
  ScenarioContext& context_;
  RawClient& client_;
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

void bad_chains(ScenarioContext& context) {
  context.bystander();
  RawClient client(context);
  if (!client.driver().bring_up()) return context.fired(false, "the function does not come up");
  Chains chains(context, client);
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
  context.trigger();
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
  context.fired(chains.back() != 0, std::to_string(chains.back()) + " bad chains");
  const std::uint64_t counted = chains.violations() - before;
  context.detected("counted", all_back && counted == all.size() + 2, std::to_string(counted) + " violations counted");
  context.contained("nothing executed", chains.untouched(), "nothing was executed");
  context.contained();
  const std::string works = client.works();
  context.recovered("good job", works.empty(), works.empty() ? "brought up, good job" : works);
}

}  // namespace svp::campaign

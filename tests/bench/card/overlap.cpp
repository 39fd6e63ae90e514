// SPDX-License-Identifier: Apache-2.0
// P13: overlap. The operands of the next job are moved while this one computes (two streams and events), and the
// correction of the next tile is moved while this one computes (one stream, wire::kDmaAhead).
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "host_driver/runtime/event.hpp"
#include "tests/bench/card/add_job.hpp"
#include "tests/bench/card/block_client.hpp"
#include "tests/bench/card/placement.hpp"
#include "tests/bench/card/session.hpp"
#include "tests/bench/card/statistics.hpp"

namespace bench {

namespace {

constexpr std::int64_t kRows = 32 * 1024;
constexpr unsigned kJobs = 16;
constexpr unsigned kPairs = 400;
constexpr unsigned kRepetitions = 20;
constexpr std::uint64_t kCorrectionBytes = 512;

// A core besides the one whose hart moves transfers; core 0 when there is no other.
std::uint64_t computing_core(svp::Context& card) { return card.device().config().cores > 1 ? 2 : 1; }

// Jobs whose operand is brought before each of them.
class Pipeline {
 public:
  Pipeline(svp::Context& card, std::uint64_t core_mask)
      : job_(card, kRows),
        memory_{TransferMemory(card, kBytes), TransferMemory(card, kBytes)},
        compute_(card.runtime().stream(1)),
        copies_(card.runtime().stream(2)),
        options_{.core_mask = core_mask} {
    std::memset(memory_[0].out.data(), 0x5a, kBytes);
    std::memset(memory_[1].out.data(), 0xa5, kBytes);
  }

  double computing() {
    return timed([&](unsigned) { compute(); });
  }
  double copying() {
    return timed([&](unsigned i) { copy(i); });
  }
  // Job i computes when its operand is there; the next operand but one waits until job i has ended.
  double both() {
    std::array<std::shared_ptr<svp::Event>, 2> ended;
    return timed([&](unsigned i) {
      if (ended[i % 2] != nullptr) copies_.Wait(ended[i % 2]);
      copy(i);
      compute_.Wait(copies_.Record());
      compute();
      ended[i % 2] = compute_.Record();
    });
  }
  // As long as a computation, about.
  void match() {
    const double copy = copying(), kernel = computing();
    transfers_ = std::clamp<unsigned>(static_cast<unsigned>(std::lround(kernel / copy)), 1, 64);
  }
  void check() {
    job_.check();
    job_.wipe();
    for (const TransferMemory& memory : memory_) {
      copies_.Launch(svp::Job::from_device(memory.back.data(), memory.storage->allocation_index(), kBytes), {});
      copies_.Synchronize();
      require(std::memcmp(memory.back.data(), memory.out.data(), kBytes) == 0, "the bytes that were moved differ");
      std::memset(memory.back.data(), 0, kBytes);
    }
  }

 private:
  static constexpr std::uint64_t kBytes = wire::kMiB;

  void compute() { compute_.Launch(job_.job(), job_.arguments(), options_); }
  void copy(unsigned i) {
    const TransferMemory& memory = memory_[i % 2];
    for (unsigned n = 0; n < transfers_; ++n) {
      copies_.Launch(svp::Job::to_device(memory.out.data(), memory.storage->allocation_index(), kBytes), {});
    }
  }
  template <typename Step>
  double timed(Step step) {
    const auto start = Clock::now();
    for (unsigned i = 0; i < kJobs; ++i) step(i);
    copies_.Synchronize();
    compute_.Synchronize();
    return ns_since(start) / kJobs;
  }

  AddJob job_;
  std::array<TransferMemory, 2> memory_;
  svp::FlexStream& compute_;
  svp::FlexStream& copies_;
  const svp::LaunchOptions options_;
  unsigned transfers_ = 1;
};

void measure_pipeline(Session& session, std::uint64_t core_mask, const char* what) {
  Pipeline pipeline(session.card(), core_mask);
  Row row{.id = "P13",
          .what = what,
          .limit = "the sum of both alone",
          .goal = at_most(0.75),
          .checked = "every element, every byte"};
  pipeline.match();
  for (unsigned round = 0; round < session.options().rounds; ++round) {
    double copying = 0, computing = 0, both = 0;
    for (unsigned i = 0; i < session.amount(kRepetitions); ++i) {
      const double now[] = {pipeline.copying(), pipeline.computing(), pipeline.both()};
      copying = i == 0 ? now[0] : std::min(copying, now[0]);
      computing = i == 0 ? now[1] : std::min(computing, now[1]);
      both = i == 0 ? now[2] : std::min(both, now[2]);
    }
    row.add(both, copying + computing);
    pipeline.check();
  }
  session.add(std::move(row));
}

// A correction and an empty kernel, again and again, as the tiles of a launch.
double tiles(BlockClient& client, std::span<const wire::ControlBlock> walk, unsigned count) {
  const auto start = Clock::now();
  for (unsigned i = 0; i < count; ++i) {
    client.submit(walk);
    if (client.submitted() > wire::kStreamCredits / 2) client.wait_ended(client.submitted() - wire::kStreamCredits / 2);
  }
  client.wait_all();
  require(client.not_ok() == 0, "a block ended badly");
  return ns_since(start) / count;
}

void measure_tiles(Session& session) {
  auto& card = session.card();
  BlockClient client(card.device());
  const auto job = load_empty_kernel(card);
  const auto correction = card.host_memory().allocate(kCorrectionBytes);
  const auto slots =
      card.runtime().allocator().allocate(2 * wire::kMaxCorrectionBytes, {.type = svp::RegionType::Program});
  svp::ResolvedAllocation slot = card.runtime().allocator().resolve(slots);
  wire::ControlBlock kernel = compute_block(job, card.runtime().allocator());
  kernel.payload.compute.core_mask = computing_core(card);
  const auto walk = [&](std::uint32_t flags) {
    std::array<wire::ControlBlock, 4> blocks{to_device_block(correction, slot, kCorrectionBytes), kernel, {}, kernel};
    svp::ResolvedAllocation other = slot;
    other.address.offset += wire::kMaxCorrectionBytes;
    blocks[2] = to_device_block(correction, other, kCorrectionBytes);
    for (const std::size_t dma : {0u, 2u}) blocks[dma].payload.dma.flags = flags;
    return blocks;
  };
  const auto ahead = walk(wire::kDmaAhead), in_order = walk(0);
  const Apart apart(card);
  Row row{.id = "P13",
          .what = "tile: correction DMA ahead, empty kernel",
          .limit = "the same in order",
          .checked = "outcomes"};
  for (unsigned round = 0; round < session.options().rounds; ++round) {
    double ours = 0, limit = 0;
    for (unsigned i = 0; i < session.amount(kRepetitions); ++i) {
      const double now[] = {tiles(client, ahead, kPairs / 2) / 2, tiles(client, in_order, kPairs / 2) / 2};
      ours = i == 0 ? now[0] : std::min(ours, now[0]);
      limit = i == 0 ? now[1] : std::min(limit, now[1]);
    }
    row.add(ours, limit);
  }
  session.add(std::move(row));
  card.runtime().allocator().deallocate(slots);
}

}  // namespace

void measure_overlap(Session& session) {
  const std::uint64_t core = computing_core(session.card());
  measure_pipeline(session, core,
                   core == 1 ? "next job's DMA beside this job's compute, one core"
                             : "next job's DMA beside this job's compute on core 1");
  if (core != 1) measure_pipeline(session, 1, "next job's DMA beside this job's compute on core 0");
  measure_tiles(session);
}

}  // namespace bench

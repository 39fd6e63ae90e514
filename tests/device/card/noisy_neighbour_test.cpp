// SPDX-License-Identifier: Apache-2.0
// What one function may cost another, as the card itself counts it: no clock takes part.
//
// With n functions at work, before a quantum of its own on hart 0 a function waits for at most one quantum of each of
// the others, n - 1 in all, and for no more bytes than these may move (docs/protocol.md, "Fairness"); and a kernel of
// it waits for at most one slice of each of them. Each quantum and slice counts once for every step of its function's
// weight; here all weigh 1. A function that is reset has its reset as a quantum, and the command for it is one of M's.
//
// The same is held against what a test sees, step by step, in tests/unit/firmware/core/fair_quanta_test.cpp. What it
// comes to in time is measured by scripts/bench (N1). Every result of the victim is compared, byte for byte or with the
// golden model, and that there was a flood is checked, too.
#include <cstdio>
#include <string>

#include "tests/bench/card/flood.hpp"
#include "tests/bench/card/flood_sources.hpp"
#include "tests/bench/card/victim.hpp"
#include "tests/device/card/card_support.hpp"
#include "tests/support/admin_requests.hpp"

namespace svp {
namespace {

using bench::FloodKind;

constexpr unsigned kVictim = 1;  // VF; the neighbours are those behind it
constexpr unsigned kMostNeighbours = 3;
constexpr std::size_t kSamples = 60;
constexpr std::uint64_t kFewestResets = 30;
constexpr unsigned kMostRounds = 200;
// docs/protocol.md, "Fairness": a quantum's bytes and the step in which they are used up; or a launch that is made
// ready.
constexpr std::uint64_t kQuantumBytes = 512 * wire::kKiB + 256 * wire::kKiB;
constexpr std::uint64_t kLaunchBytes = 5 * wire::kMiB;

class OnASharedCard {
 public:
  static void boot() {
    CardOptions options = test::small_card();
    options.virtual_functions = 1 + kMostNeighbours;
    card_ = test::boot(options);
  }
  static void end() { card_.reset(); }

 protected:
  using Waited = decltype(wire::AdminReply::Values::function);

  OnASharedCard() : tenant_(bench::open_tenant(card_, kVictim, bench::Waits::Sleeping)) {}

  static Card& card() { return *card_; }
  svp::Context& tenant() { return *tenant_; }

  // What the victim waited for since it was attached.
  Waited waited() { return test::figures_of(tenant().device(), 0); }
  static void sample(bench::Victim& victim) {
    std::vector<double> times;  // of no interest here
    while (times.size() < kSamples) victim.sample(times);
  }
  Waited expect_fair(unsigned others) {
    const Waited most = waited();
    std::printf("  waited for at most %llu quanta, %llu bytes, %llu slices\n",
                static_cast<unsigned long long>(most.waited_quanta), static_cast<unsigned long long>(most.waited_bytes),
                static_cast<unsigned long long>(most.waited_slices));
    EXPECT_LE(most.waited_quanta, others);
    EXPECT_LE(most.waited_bytes, (others + 1) * kQuantumBytes + others * kLaunchBytes);
    EXPECT_LE(most.waited_slices, others);
    test::expect_healthy(card(), tenant().device());
    return most;
  }

 private:
  static inline std::shared_ptr<Card> card_;
  std::unique_ptr<svp::Context> tenant_;
};

// ---- floods ---------------------------------------------------------------------------------------------------------

struct Crowd {
  FloodKind kind;
  unsigned neighbours;
};
void PrintTo(const Crowd& crowd, std::ostream* out) {
  *out << crowd.neighbours << " flooding with " << name(crowd.kind);
}

class NoisyNeighbour : public testing::TestWithParam<Crowd>, protected OnASharedCard {
 protected:
  static void SetUpTestSuite() { boot(); }
  static void TearDownTestSuite() { end(); }

  // Goes on until the victim has waited for as many of `counted` as it has to: on a busy machine a whole round of
  // samples may pass before the flooding threads get a CPU.
  void beside_the_flood(bench::Victim& victim, std::uint64_t Waited::* counted, std::uint64_t fewest) {
    const auto [kind, neighbours] = GetParam();
    bench::Floods floods(card(), kVictim + 1, neighbours, kind);
    floods.start();
    unsigned rounds = 0;
    do sample(victim);
    while (++rounds < kMostRounds && waited().*counted < fewest);
    floods.stop();
    std::printf("  %u flooding with %s, %llu times, %u rounds\n", neighbours, std::string(name(kind)).c_str(),
                static_cast<unsigned long long>(floods.ended()), rounds);
    EXPECT_GE(expect_fair(neighbours).*counted, fewest) << "that was no flood";
  }
};

TEST_P(NoisyNeighbour, ATransferWaitsForOneQuantumOfEach) {
  bench::TransferVictim victim(tenant());
  // Of kernels and doorbells nothing is served by the loop that serves rings.
  const FloodKind kind = GetParam().kind;
  const bool fills_rings = kind != FloodKind::Kernels && kind != FloodKind::Doorbells;
  beside_the_flood(victim, &Waited::waited_quanta, fills_rings ? 1 : 0);
}

TEST_P(NoisyNeighbour, AKernelWaitsForOneSliceOfEach) {
  bench::KernelVictim victim(tenant());
  beside_the_flood(victim, &Waited::waited_slices, GetParam().kind == FloodKind::Kernels ? 1 : 0);
}

std::vector<Crowd> crowds() {
  std::vector<Crowd> all;
  for (const FloodKind kind : bench::kFloodKinds) {
    for (const unsigned neighbours : {1u, kMostNeighbours}) all.push_back({kind, neighbours});
  }
  return all;
}
std::string crowd_name(const testing::TestParamInfo<Crowd>& info) {
  std::string text;
  for (const char c : std::string(name(info.param.kind))) text += c == ' ' ? '_' : c;
  return text + "_from_" + std::to_string(info.param.neighbours);
}
INSTANTIATE_TEST_SUITE_P(Floods, NoisyNeighbour, testing::ValuesIn(crowds()), crowd_name);

// ---- resets ---------------------------------------------------------------------------------------------------------

class ResetBurst : public testing::Test, protected OnASharedCard {
 protected:
  static void SetUpTestSuite() { boot(); }
  static void TearDownTestSuite() { end(); }

  void beside_the_burst(bench::Victim& victim) {
    bench::Flood burst(bench::make_reset_burst(card(), kVictim + 1));
    for (unsigned round = 0; round < kMostRounds && burst.ended() < kFewestResets; ++round) {
      burst.start();
      sample(victim);
      burst.stop();
    }
    std::printf("  %llu function resets\n", static_cast<unsigned long long>(burst.ended()));
    EXPECT_GE(burst.ended(), kFewestResets) << "that was no burst";
    expect_fair(2);  // the function that is reset, and M
  }
};

TEST_F(ResetBurst, ATransferWaitsForOneQuantumOfEach) {
  bench::TransferVictim victim(tenant());
  beside_the_burst(victim);
}

TEST_F(ResetBurst, AKernelWaitsForOneSliceOfEach) {
  bench::KernelVictim victim(tenant());
  beside_the_burst(victim);
}

}  // namespace
}  // namespace svp

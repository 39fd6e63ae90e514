// SPDX-License-Identifier: Apache-2.0
// What one function may cost another, in time.
//
// Definition. With n active functions, the fair share of a victim's job is n times the time that the job takes alone. A
// noisy neighbour costs at most twice the fair share: beside n - 1 neighbours that flood the card with whatever a function
// can ask for, the victim's 99th percentile is at most 2 n times its 99th percentile alone.
// A storm of resets is nobody's job and has no share: while M resets another function again and again, and its owner
// attaches and dirties 16 MiB again, the victim's 99th percentile is at most 1.5 times the one without.
//
// Both are measured in the same run, in short blocks of samples with and without the neighbours in turn, each as a multiple
// of what the job took alone in the same block, and only the ratio of these is judged: a machine that is busy with others
// slows both. Medians are printed and not judged: on such a machine the host's scheduler favours a hart that has just
// slept, which it does when the victim is alone, and never beside a flood.
// Every result of the victim is compared, byte for byte or with the golden model. That there was a flood is checked, too.
//
// Whatever else the machine does can only add to a percentile, never take from it: a law that holds in one of a
// few measurements holds. A card that is unfair is so in all of them; a machine whose memory is taken by others for some
// seconds (a 1 MiB transfer took twice as long alone, 8.2 times beside copies) is not.
//
// What is judged is the card. The victim sleeps while it waits and the neighbours' host threads run at the lowest weight
// (tests/bench/card/flood.hpp), so that it finds a CPU when its job has ended. Time that the threads which carry the
// job were ready to run and had no CPU is the machine's and is taken out (tests/bench/card/machine_waits.hpp), alone and
// beside the neighbours alike; but the wire's waits stay in where it is the wire that is flooded.
#include <algorithm>
#include <cstdio>
#include <optional>
#include <string>

#include "tests/bench/card/flood.hpp"
#include "tests/bench/card/flood_sources.hpp"
#include "tests/bench/card/machine_waits.hpp"
#include "tests/bench/card/placement.hpp"
#include "tests/bench/card/statistics.hpp"
#include "tests/bench/card/victim.hpp"
#include "tests/device/card/card_support.hpp"

namespace flex {
namespace {

using bench::Compared;
using bench::FloodKind;

constexpr unsigned kVictim = 1;  // VF; the neighbours are those behind it
constexpr unsigned kMostNeighbours = 3;
constexpr std::size_t kSamples = 300;     // so that the 99th percentile is not the worst
constexpr std::size_t kShortJobs = 1000;  // beside resets: one takes as long as several of them
constexpr std::uint64_t kFewestResets = 30;
constexpr double kFairShares = 2;
constexpr double kInAStorm = 1.5;
constexpr unsigned kMeasurements = 8;

class OnASharedCard {
 public:
  static void boot() {
    CardOptions options = test::small_card();
    options.virtual_functions = 1 + kMostNeighbours;
    card_ = test::boot(options);
  }
  static void end() { card_.reset(); }

 protected:
  explicit OnASharedCard(bench::Wire wire = bench::Wire::TakenOut)
      : apart_(*card_), waits_(*card_, wire), tenant_(bench::open_tenant(card_, kVictim, bench::Waits::Sleeping)) {}

  static Card& card() { return *card_; }
  spyre::Context& tenant() { return *tenant_; }

  // `measure` returns what it compared.
  template <typename Measure>
  void expect_within(double bound, bench::Victim& victim, Measure measure) {
    victim.without(&waits_);
    double ratio = 0;
    for (unsigned measurement = 0; measurement < kMeasurements; ++measurement) {
      const Compared times = measure();
      for (const auto& [rank, text] : {std::pair{0.5, "median"}, std::pair{0.99, "p99"}}) {
        std::printf("  %-6s %9.1f us alone, %9.1f us beside them: %5.2f times\n", text,
                    bench::percentile(times.alone, rank) / 1000, bench::percentile(times.disturbed, rank) / 1000,
                    times.ratio(rank));
      }
      EXPECT_GE(times.alone.size(), kSamples);
      EXPECT_GE(times.disturbed.size(), kSamples);
      ratio = measurement == 0 ? times.ratio(0.99) : std::min(ratio, times.ratio(0.99));
      if (ratio <= bound) break;
    }
    EXPECT_LE(ratio, bound);
    test::expect_healthy(card(), tenant().device());
  }

 private:
  static inline std::shared_ptr<Card> card_;
  bench::Apart apart_;
  bench::MachineWaits waits_;
  std::unique_ptr<spyre::Context> tenant_;
};

// ---- floods -------------------------------------------------------------------------------------------------------------

struct Crowd {
  FloodKind kind;
  unsigned neighbours;
};
void PrintTo(const Crowd& crowd, std::ostream* out) {
  *out << crowd.neighbours << " flooding with " << name(crowd.kind);
}

// A bell for each of them goes over the wire.
constexpr bool floods_the_wire(FloodKind kind) { return kind == FloodKind::Bells || kind == FloodKind::Admin; }

class NoisyNeighbour : public testing::TestWithParam<Crowd>, protected OnASharedCard {
 protected:
  NoisyNeighbour() : OnASharedCard(floods_the_wire(GetParam().kind) ? bench::Wire::LeftIn : bench::Wire::TakenOut) {}
  static void SetUpTestSuite() { boot(); }
  static void TearDownTestSuite() { end(); }

  void expect_fair(bench::Victim& victim) {
    const auto [kind, neighbours] = GetParam();
    bench::Floods floods(card(), kVictim + 1, neighbours, kind);
    expect_within(kFairShares * (1 + neighbours), victim, [&] {
      const Compared times = compare(victim, kSamples, [&] { floods.start(); }, [&] { floods.stop(); });
      std::printf("  %u flooding with %s, %llu times\n", neighbours, std::string(name(kind)).c_str(),
                  static_cast<unsigned long long>(floods.ended()));
      return times;
    });
  }
};

TEST_P(NoisyNeighbour, CostsATransferAtMostTwiceItsFairShare) {
  bench::TransferVictim victim(tenant());
  expect_fair(victim);
}

TEST_P(NoisyNeighbour, CostsAKernelAtMostTwiceItsFairShare) {
  bench::KernelVictim victim(tenant());
  expect_fair(victim);
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

// ---- resets -------------------------------------------------------------------------------------------------------------

class ResetStorm : public testing::Test, protected OnASharedCard {
 protected:
  static void SetUpTestSuite() { boot(); }
  static void TearDownTestSuite() { end(); }

  void expect_unmoved(bench::Victim& victim, std::size_t samples) {
    bench::Flood storm(bench::make_reset_storm(card(), kVictim + 1));
    expect_within(kInAStorm, victim, [&] {
      const Compared times = compare(victim, samples, [&] { storm.start(); }, [&] { storm.stop(); });
      std::printf("  %llu function resets\n", static_cast<unsigned long long>(storm.ended()));
      EXPECT_GE(storm.ended(), kFewestResets) << "that was no storm";
      return times;
    });
  }
};

TEST_F(ResetStorm, OfAnotherFunctionHardlyMovesATransfer) {
  bench::TransferVictim victim(tenant());
  expect_unmoved(victim, kShortJobs);
}

TEST_F(ResetStorm, OfAnotherFunctionHardlyMovesAKernel) {
  bench::KernelVictim victim(tenant());
  expect_unmoved(victim, kSamples);
}

}  // namespace
}  // namespace flex

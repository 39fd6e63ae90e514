// SPDX-License-Identifier: Apache-2.0
// Regions that are released while kernels run, on the card in the emulator (protocol §7): the kernel goes on where it
// began, the handle is void at once, the memory comes back when nothing can reach it any more, and then it is zero. The
// native test of the core manager walks more cases; here translations, first touches and harts are real.
#include <algorithm>
#include <array>
#include <cstring>
#include <future>

#include "tests/device/card/card_support.hpp"
#include "tests/support/admin_requests.hpp"

namespace svp {
namespace {

using test::endpoint_of;
using test::Workbench;
using wire::Outcome;
using wire::Status;

constexpr std::uint64_t kBytes = 4 * wire::kMiB;  // of each region: two granules
constexpr std::uint64_t kOld = 0x0123456789ABCDEF;
constexpr std::uint64_t kNew = 0xFEDCBA9876543210;
constexpr std::uint64_t kSpinAt = 0, kGatedAt = 256 * wire::kKiB, kCorrectionAt = 1 * wire::kMiB;  // Program region
constexpr std::uint64_t kReadBack = 16 * wire::kMiB;                                               // host memory
// No kernel of this file is to be ended by it.
constexpr const char* kTimeout = "watchdog=10000000";

// A block on its way, on a stream of its own.
class Flight {
 public:
  Flight(Device& device, const wire::ControlBlock& block) : stream_(device) {
    EXPECT_EQ(stream_.submit(block), 1u);
    EXPECT_TRUE(stream_.wait_started(1, test::kBound));
  }

  bool ended() const { return stream_.ended() != 0; }
  wire::Completion end() {
    if (!stream_.wait_all(test::kBound)) throw std::runtime_error("the kernel never ended");
    return stream_.sink().all().front();
  }
  void stop() {
    if (!ended()) value_or_throw(stream_.reset());
  }

 private:
  test::RecordedStream stream_;
};

std::uint64_t free_bytes(Device& device) { return test::pool_figures(device).free_bytes; }
// Scrubbing takes its time; each look is a round trip.
bool free_bytes_become(Device& device, std::uint64_t bytes) {
  const auto limit = test::soon();
  while (free_bytes(device) != bytes) {
    if (Device::Clock::now() > limit) return false;
  }
  return true;
}

// With a workbench that holds the kernels of this file.
struct Bench : Workbench {
  Bench(const Card& card, Device& device)
      : Workbench(device), spin_(test::kernel_image(card, "spin")), gated_(test::kernel_image(card, "gated")) {
    load(kSpinAt, spin_);
    load(kGatedAt, gated_);
  }

  Region acquire() const { return value_or_throw(device().acquire_region(RegionType::Tensor, kBytes)); }
  wire::ControlBlock spin(std::uint64_t mask, std::uint64_t budget = 0) const {
    return compute(kSpinAt, spin_.size(), mask, budget);
  }

  // from → to, once the word at `gate` in tensor() is not 0. The correction tensor is read when the launch begins.
  wire::ControlBlock gated(const Region& from, const Region& to, std::uint64_t gate, std::uint64_t mask) {
    const std::array symbols{test::address_symbol(0, from, 0), test::address_symbol(1, to, 0),
                             test::address_symbol(2, tensor(), gate), test::dimension_symbol(0, kBytes / 8)};
    const Region* const touched[] = {&from, &to, &tensor()};
    const auto correction = test::correction_of(symbols, touched);
    load(kCorrectionAt, correction);
    auto block = compute(kGatedAt, gated_.size(), mask);
    block.payload.compute.correction = program(kCorrectionAt);
    block.payload.compute.correction_bytes = static_cast<std::uint32_t>(correction.size());
    return block;
  }

  bool holds(const Region& region, std::uint64_t pattern) const {
    if (run(dma(endpoint_of(region), host(kReadBack), kBytes)).outcome != Outcome::Ok) return false;
    std::vector<std::uint64_t> words(kBytes / 8);
    std::memcpy(words.data(), device().host_memory().data() + kReadBack, kBytes);
    return std::ranges::all_of(words, [&](std::uint64_t word) { return word == pattern; });
  }
  void write(const Region& region, std::uint64_t pattern) const {
    EXPECT_EQ(run(fill(endpoint_of(region), kBytes, pattern)).outcome, Outcome::Ok);
  }
  void open_gate(std::uint64_t gate) const { EXPECT_EQ(run(fill(tensor(gate), 128, 1)).outcome, Outcome::Ok); }

 private:
  std::vector<std::byte> spin_;
  std::vector<std::byte> gated_;
};

struct Place {
  bool physical;
  std::uint64_t core_mask;
};

class ReleaseUnderLaunch : public testing::TestWithParam<Place> {
 protected:
  void SetUp() override {
    card_ = test::boot(test::small_card(kTimeout));
    device_ = value_or_throw(GetParam().physical ? card_->open_physical() : card_->open_virtual(1));
    bench_.emplace(*card_, *device_);
  }
  void TearDown() override {
    test::expect_healthy(*card_, *device_);
    bench_.reset();
    device_.reset();
  }

  std::unique_ptr<Card> card_;
  std::unique_ptr<Device> device_;
  std::optional<Bench> bench_;
};

TEST_P(ReleaseUnderLaunch, AKernelComputesOnWhatItBeganWithAndTheNextSeesTheNew) {
  const Region old = bench_->acquire(), old_result = bench_->acquire(), new_result = bench_->acquire();
  bench_->write(old, kOld);
  Flight waiting(*device_, bench_->gated(old, old_result, 0, GetParam().core_mask));
  const auto free = free_bytes(*device_);

  value_or_throw(device_->release_region(old));
  EXPECT_EQ(free_bytes(*device_), free) << "nobody may have it yet";
  EXPECT_FALSE(device_->release_region(old)) << "released twice";
  EXPECT_EQ(bench_->run(Workbench::dma(endpoint_of(old), bench_->host(kReadBack), 128)).outcome, Outcome::Rejected);
  value_or_throw(device_->reset_stream(0));

  const Region fresh = bench_->acquire();
  EXPECT_EQ(fresh.ordinal, old.ordinal);
  EXPECT_NE(fresh.generation, old.generation);
  bench_->write(fresh, kNew);
  bench_->open_gate(128);
  const auto end = bench_->run(bench_->gated(fresh, new_result, 128, GetParam().core_mask));
  EXPECT_EQ(end.outcome, Outcome::Ok) << wire::name(end.status);
  EXPECT_TRUE(bench_->holds(new_result, kNew));
  EXPECT_FALSE(waiting.ended());

  bench_->open_gate(0);  // the first touch of the old region comes only now
  EXPECT_EQ(waiting.end().outcome, Outcome::Ok) << wire::name(waiting.end().status);
  EXPECT_TRUE(bench_->holds(old_result, kOld));
  EXPECT_TRUE(bench_->holds(fresh, kNew));

  EXPECT_TRUE(free_bytes_become(*device_, free)) << "the old one back, the fresh one taken";
  const Region next = bench_->acquire();
  if (GetParam().physical) EXPECT_EQ(next.base.region_id, old.base.region_id) << "the same memory";
  EXPECT_TRUE(bench_->holds(next, 0));
}

// Its address space has no tables for that window: neither a panic nor an access.
TEST_P(ReleaseUnderLaunch, ARegionAcquiredLaterIsStrayForAKernelThatBeganWithoutIt) {
  const Region from = bench_->acquire();
  Region later = from;  // as the kernel is told; its owner does not have it yet
  later.base.region_id = 0x5EED;
  ++later.ordinal;
  Flight kernel(*device_, bench_->gated(from, later, 0, GetParam().core_mask));
  const Region acquired = bench_->acquire();
  ASSERT_EQ(acquired.ordinal, later.ordinal);
  bench_->open_gate(0);
  const auto end = kernel.end();
  EXPECT_EQ(end.outcome, Outcome::Fault);
  EXPECT_EQ(end.status, Status::StoreFault) << wire::name(end.status);
  EXPECT_EQ(end.fault.region_ordinal, later.ordinal);
  EXPECT_EQ(end.fault.offset, 0u);
  EXPECT_TRUE(bench_->holds(acquired, 0));
}

TEST_P(ReleaseUnderLaunch, AReleaseWaitsForAnAddressSpaceAndGetsOneWhenAKernelIsStopped) {
  const auto free = free_bytes(*device_);
  std::vector<std::unique_ptr<Flight>> kernels;
  Region region{};
  constexpr unsigned kSpaces = 4;
  for (unsigned i = 0; i < kSpaces; ++i) {
    region = bench_->acquire();
    kernels.push_back(std::make_unique<Flight>(*device_, bench_->spin(GetParam().core_mask)));
    if (i + 1 < kSpaces) value_or_throw(device_->release_region(region));
  }
  auto last = std::async(std::launch::async, [&] { return device_->release_region(region); });
  EXPECT_EQ(bench_->run(Workbench::nop()).outcome, Outcome::Ok);
  EXPECT_FALSE(kernels.back()->ended());
  kernels.front()->stop();
  EXPECT_TRUE(last.get());  // bounded: release_region() is bounded by Timeouts::admin
  for (auto& kernel : kernels) kernel->stop();
  EXPECT_TRUE(free_bytes_become(*device_, free));
}

TEST_P(ReleaseUnderLaunch, AFunctionResetTakesRetiredAddressSpacesWithIt) {
  std::optional<std::uint64_t> free;
  for (int owner = 0; owner < 5; ++owner) {
    if (!free) free = free_bytes(*device_);
    std::vector<std::unique_ptr<Flight>> kernels;
    for (int i = 0; i < 3; ++i) {
      const Region region = bench_->acquire();
      bench_->write(region, kOld);
      kernels.push_back(std::make_unique<Flight>(*device_, bench_->spin(3)));
      value_or_throw(device_->release_region(region));
    }
    for (auto& kernel : kernels) EXPECT_FALSE(kernel->ended());
    bench_.reset();
    device_->close();  // with kernels running: its blocks end, the flights are told of it
    for (auto& kernel : kernels) EXPECT_TRUE(kernel->ended());
    kernels.clear();
    device_.reset();
    device_ = value_or_throw(GetParam().physical ? card_->open_physical() : card_->open_virtual(1));
    bench_.emplace(*card_, *device_);
    EXPECT_TRUE(free_bytes_become(*device_, *free)) << "owner " << owner;
    const Region region = bench_->acquire();
    EXPECT_TRUE(bench_->holds(region, 0));
    value_or_throw(device_->release_region(region));
  }
}

INSTANTIATE_TEST_SUITE_P(Functions, ReleaseUnderLaunch,
                         testing::Values(Place{true, 1}, Place{true, 2}, Place{false, 1}, Place{false, 2}),
                         [](const auto& info) {
                           return std::string(info.param.physical ? "Physical" : "Virtual") + "OnCore" +
                                  (info.param.core_mask == 1 ? "0" : "1");
                         });

}  // namespace
}  // namespace svp

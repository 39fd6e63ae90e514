// SPDX-License-Identifier: Apache-2.0
#include "tests/conformance/bystanders.hpp"

#include <algorithm>
#include <cstring>

namespace svp::conformance {

using test::Workbench;
using wire::Outcome;

namespace {
// In host memory, behind the canaries.
constexpr std::uint64_t kReadBackAt = 2 * wire::kMiB;
constexpr std::uint64_t kWorkOutAt = 5 * wire::kMiB;
constexpr std::uint64_t kWorkBackAt = 6 * wire::kMiB;
constexpr std::uint64_t kWorkBytes = 48 * wire::kKiB;

wire::Endpoint in(const Region& region, std::uint64_t offset) {
  return {region.base.region_id, offset, region.generation, wire::EndpointKind::Region, {}};
}
}  // namespace

Bystander::Bystander(unsigned which)
    : mark_(0xB1D5'0000'0000'0000u + which),
      device_(provider().open_bystander(which)),
      bench_(std::in_place, *device_) {
  stream_ = value_or_throw(device_->open_stream(StreamPriority::Low));
  work_stream_ = value_or_throw(device_->open_stream(StreamPriority::High));
  work_region_ = value_or_throw(device_->acquire_region(RegionType::Tensor, Workbench::kRegionBytes));
  auto* words = reinterpret_cast<std::uint64_t*>(device_->host_memory().data());
  for (std::uint64_t i = 0; i < kCanaryBytes / 8; ++i) words[i] = pattern(i);
  place_canaries(bench_->tensor());
  place_canaries(bench_->program());
}

void Bystander::place_canaries(const Region& region) {
  for (std::uint64_t at = 0; at < Workbench::kRegionBytes; at += kCanaryBytes) {
    if (bench_->run(Workbench::dma(bench_->host(0), in(region, at), kCanaryBytes), stream_).outcome != Outcome::Ok) {
      throw std::runtime_error("no canaries");
    }
  }
  canaries_.push_back(region);
}

void Bystander::surround() {
  place_canaries(value_or_throw(device_->acquire_region(RegionType::Tensor, Workbench::kRegionBytes)));
}

Bystander::~Bystander() {
  stop_ = true;
  if (worker_.joinable()) worker_.join();  // bounded: the flag is set; each of its waits is bounded
}

std::vector<fwtest::RegionHandle> Bystander::regions() const {
  std::vector<fwtest::RegionHandle> handles;
  const auto add = [&](const Region& region) {
    handles.push_back({region.base.region_id, region.generation, region.bytes});
  };
  std::ranges::for_each(canaries_, add);
  add(work_region_);
  return handles;
}

bool Bystander::round(std::uint64_t number) {
  auto* memory = device_->host_memory().data();
  auto* out = reinterpret_cast<std::uint64_t*>(memory + kWorkOutAt);
  for (std::uint64_t i = 0; i < kWorkBytes / 8; ++i) out[i] = pattern(i + number * 77);
  const wire::ControlBlock blocks[] = {
      Workbench::dma(bench_->host(kWorkOutAt), in(work_region_, 0), kWorkBytes),
      Workbench::dma(in(work_region_, 0), in(work_region_, wire::kMiB), kWorkBytes),
      Workbench::dma(in(work_region_, wire::kMiB), bench_->host(kWorkBackAt), kWorkBytes),
      test::Blocks::event_signal(++signalled_)};
  for (const auto& block : blocks) {
    if (bench_->run(block, work_stream_).outcome != Outcome::Ok) return false;
  }
  return std::memcmp(out, memory + kWorkBackAt, kWorkBytes) == 0;
}

void Bystander::work() {
  for (std::uint64_t number = 1; !stop_; ++number) {
    if (!round(number)) ++wrong_;
    ++rounds_;
  }
}

void Bystander::start_work() {
  stop_ = false;
  rounds_ = 0;
  worker_ = std::thread([this] { work(); });
}

void Bystander::stop_work() {
  // At least one round behind whatever has just happened.
  const std::uint64_t before = rounds_;
  for (const auto limit = test::soon(); rounds_ < before + 2 && Device::Clock::now() < limit;) {
    std::this_thread::yield();
  }
  EXPECT_GE(rounds_, before + 2) << "a bystander does not get on";
  stop_ = true;
  worker_.join();  // bounded: the flag is set; each of its waits is bounded
  EXPECT_EQ(wrong_, 0u) << "a bystander's job went wrong";
}

void Bystander::expect_untouched() {
  const auto* words = reinterpret_cast<const std::uint64_t*>(device_->host_memory().data());
  const auto holds_canaries = [&](const std::uint64_t* at) {
    for (std::uint64_t i = 0; i < kCanaryBytes / 8; ++i) {
      if (at[i] != pattern(i)) return false;
    }
    return true;
  };
  EXPECT_TRUE(holds_canaries(words)) << "the window of a bystander changed";
  for (const Region& region : canaries_) {
    for (std::uint64_t at = 0; at < Workbench::kRegionBytes; at += kCanaryBytes) {
      const auto block = Workbench::dma(in(region, at), bench_->host(kReadBackAt), kCanaryBytes);
      const auto end = bench_->run(block, stream_);
      ASSERT_EQ(end.outcome, Outcome::Ok) << wire::name(end.status);
      EXPECT_TRUE(holds_canaries(words + kReadBackAt / 8)) << "a region of a bystander changed";
    }
  }
  const auto stats = value_or_throw(device_->card_statistics()).values.stats;
  EXPECT_EQ(stats.rejected + stats.failed + stats.aborted + stats.ring_violations, 0u);
  EXPECT_EQ(device_->health(), Health::Alive);
  EXPECT_FALSE(device_->failure());
  EXPECT_TRUE(device_->take_events().empty());
}

wire::Target Bystander::target() const {
  const wire::DeviceConfig& config = device_->config();
  return config.kind == wire::FunctionKind::Physical ? wire::kTargetPhysical
                                                     : wire::target_of_virtual(config.function_index);
}

Timeline Bystander::timeline() const {
  return {.function = target(),
          .generation = generation(),
          .stream = work_stream_,
          .incarnation = device_->stream_incarnation(work_stream_)};
}

std::vector<fwtest::GrantHandle> Bystanders::grants() const {
  std::vector<fwtest::GrantHandle> all;
  for (unsigned i = 0; i < Provider::kBystanders; ++i) {
    const Bystander& grantee = *all_[(i + 1) % Provider::kBystanders];
    const TimelineGrant granted = value_or_throw(
        grant_timeline(provider().management(), all_[i]->timeline(), grantee.target(), grantee.generation()));
    all.push_back({granted.grant, granted.epoch});
  }
  return all;
}

}  // namespace svp::conformance

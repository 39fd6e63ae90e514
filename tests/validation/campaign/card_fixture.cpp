// SPDX-License-Identifier: Apache-2.0
#include "tests/validation/campaign/card_fixture.hpp"

#include <algorithm>
#include <cstring>

#include "shared/boot_arguments.hpp"
#include "tests/validation/bounds.hpp"

namespace svp::campaign {

namespace {

using std::chrono::nanoseconds;
using wire::Outcome;

constexpr std::uint64_t kCanaryBytes = 1 * wire::kMiB;  // in host memory, from its start
constexpr std::uint64_t kReadBackAt = 2 * wire::kMiB;
constexpr std::uint64_t kWorkOutAt = 5 * wire::kMiB;
constexpr std::uint64_t kWorkBackAt = 6 * wire::kMiB;
constexpr std::uint64_t kWorkBytes = 64 * wire::kKiB;
constexpr std::uint64_t kRegionBytes = 2 * wire::kMiB;
constexpr auto kOneBlock = campaign_bounds::kBlock;
// Two harts whatever the machine has: kernels run beside the card's own loop.
constexpr unsigned kCores = 2;

std::string ending(const char* what, const std::optional<wire::Completion>& end) {
  if (!end) return std::string(what) + " did not end";
  return std::string(what) + " ended " + std::string(wire::name(end->outcome)) + ", " +
         std::string(wire::name(end->status));
}

}  // namespace

// ---- bystander ------------------------------------------------------------------------------------------------------

Bystander::Bystander(std::unique_ptr<Device> device)
    : mark_(0x1990'CE47'0000'0000u + device->config().function_index),
      device_(std::move(device)),
      stream_(std::make_unique<TestStream>(*device_)),
      work_stream_(std::make_unique<TestStream>(*device_)),
      work_region_(value_or_throw(device_->acquire_region(RegionType::Tensor, kRegionBytes))) {
  auto* words = reinterpret_cast<std::uint64_t*>(device_->host_memory().data());
  for (std::uint64_t i = 0; i < kCanaryBytes / 8; ++i) words[i] = pattern(i);
  for (const RegionType type : {RegionType::Tensor, RegionType::Program}) {
    const Region region = value_or_throw(device_->acquire_region(type, kRegionBytes));
    const wire::Endpoint host = test::host_endpoint(*device_, 0);
    for (std::uint64_t at = 0; at < kRegionBytes; at += kCanaryBytes) {
      (void)stream_->run(BlockBuilder::dma(host, endpoint_of(region, at), kCanaryBytes), kOneBlock);
    }
    canaries_.push_back(region);
  }
}

Bystander::~Bystander() {
  stop_ = true;
  if (worker_.joinable()) worker_.join();  // bounded: a round ends by its test stream's bound
  work_stream_.reset();
  stream_.reset();
}

void Bystander::begin() {
  stop_ = false;
  worker_ = std::thread([this] { work(); });
}

void Bystander::work() {
  for (std::uint64_t number = 1; !stop_; ++number) {
    std::string wrong;
    try {
      wrong = round(number);
    } catch (const std::exception& error) {
      wrong = error.what();
    }
    if (!wrong.empty()) {
      wrong_ = "round " + std::to_string(number) + ": " + wrong;
      is_wrong_.store(true, std::memory_order_release);
      return;
    }
    rounds_.fetch_add(1);
  }
}

std::string Bystander::round(std::uint64_t number) {
  auto* memory = device_->host_memory().data();
  auto* out = reinterpret_cast<std::uint64_t*>(memory + kWorkOutAt);
  for (std::uint64_t i = 0; i < kWorkBytes / 8; ++i) out[i] = pattern(i + number * 77);
  const wire::Endpoint from = test::host_endpoint(*device_, kWorkOutAt);
  const wire::Endpoint back = test::host_endpoint(*device_, kWorkBackAt);
  const wire::ControlBlock blocks[] = {
      BlockBuilder::dma(from, endpoint_of(work_region_), kWorkBytes),
      BlockBuilder::dma(endpoint_of(work_region_), endpoint_of(work_region_, wire::kMiB), kWorkBytes),
      BlockBuilder::dma(endpoint_of(work_region_, wire::kMiB), back, kWorkBytes)};
  const std::size_t before = work_stream_->endings().size();
  if (!work_stream_->submit(blocks)) return "no room for three blocks";
  if (!work_stream_->wait_all(kOneBlock)) return "its blocks did not end";
  const auto all = work_stream_->endings();
  for (std::size_t i = before; i < all.size(); ++i) {
    if (all[i].outcome != Outcome::Ok) return ending("a block", all[i]);
  }
  return std::memcmp(out, memory + kWorkBackAt, kWorkBytes) == 0 ? std::string() : "its data came back changed";
}

bool Bystander::gets_on(nanoseconds timeout) {
  const std::uint64_t before = rounds_;
  const auto limit = Device::Clock::now() + timeout;
  while (rounds_ < before + 2 && !is_wrong_.load(std::memory_order_acquire) && Device::Clock::now() < limit) {
    std::this_thread::yield();
  }
  return rounds_ >= before + 2;
}

std::string Bystander::check_canaries() {
  const auto* words = reinterpret_cast<const std::uint64_t*>(device_->host_memory().data());
  const auto whole = [&](const std::uint64_t* at) {
    for (std::uint64_t i = 0; i < kCanaryBytes / 8; ++i) {
      if (at[i] != pattern(i)) return false;
    }
    return true;
  };
  if (!whole(words)) return "its window changed";
  const wire::Endpoint back = test::host_endpoint(*device_, kReadBackAt);
  for (const Region& region : canaries_) {
    for (std::uint64_t at = 0; at < kRegionBytes; at += kCanaryBytes) {
      const auto end = stream_->run(BlockBuilder::dma(endpoint_of(region, at), back, kCanaryBytes), kOneBlock);
      if (!end || end->outcome != Outcome::Ok) return ending("reading its canaries", end);
      if (!whole(words + kReadBackAt / 8)) return "a region of it changed";
    }
  }
  return {};
}

std::string Bystander::end(nanoseconds timeout) {
  const bool on = gets_on(timeout);
  stop_ = true;
  if (worker_.joinable()) worker_.join();  // bounded: the flag is set, and each of its waits is bounded
  if (!wrong_.empty()) return "the bystander function: " + wrong_;
  if (!on) return "the bystander function does not get on";
  if (auto changed = check_canaries(); !changed.empty()) return "the bystander function: " + changed;
  const auto stats = device_->card_statistics();
  if (!stats) return "the bystander function: " + stats.error().message;
  const auto& counts = stats->values.stats;
  if (counts.rejected + counts.failed + counts.aborted + counts.ring_violations != 0) {
    return "the bystander function was charged with errors that it did not make";
  }
  return {};
}

// ---- card fixture ---------------------------------------------------------------------------------------------------

namespace {

std::chrono::nanoseconds admin_bound(const FixtureOptions& options) {
  if (options.shape.reply_missing) return campaign_bounds::kMissingReply;
  if (options.conditions.short_timeout) return campaign_bounds::kShortTimeout;
  return campaign_bounds::kAdmin;
}

}  // namespace

CardOptions card_options(const FixtureOptions& options) {
  CardOptions card;
  card.cores = kCores;
  card.virtual_functions = options.shape.virtual_functions;
  card.spare_slots = options.shape.spare_slots;
  card.window_bytes = 64 * wire::kMiB;
  card.timeouts.admin = admin_bound(options);  // reached: where a reply never comes, or its check is left out
  card.boot_arguments = options.shape.words;
  if (!options.conditions.words.empty()) card.boot_arguments += " " + options.conditions.words;
  return card;
}

CardFixture::CardFixture(const FixtureOptions& options)
    : options_(options), card_(value_or_throw(Card::boot(card_options(options)))) {}
CardFixture::~CardFixture() = default;

bool CardFixture::usable() const { return card_->machine().alive(); }

}  // namespace svp::campaign

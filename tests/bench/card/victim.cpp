// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/card/victim.hpp"

#include <cstring>

#include "tests/bench/card/measurement_error.hpp"
#include "tests/bench/card/statistics.hpp"

namespace bench {

namespace {

constexpr std::uint64_t kTransferBytes = wire::kMiB;
constexpr std::uint64_t kTenantRegionBytes = 256 * wire::kMiB;
constexpr std::int64_t kKernelRows = 4 * 1024;
// Of samples, with and without in turn: short, because other work on the machine comes and goes within a second.
constexpr std::size_t kBlocks = 30;

}  // namespace

std::unique_ptr<svp::Context> open_tenant(std::shared_ptr<svp::Card> card, unsigned vf, Waits waits) {
  svp::ContextOptions options;
  options.function = vf;
  options.device.faults.no_spinning = waits == Waits::Sleeping;
  options.device.polled = waits == Waits::Polled;
  options.runtime.allocator.region_bytes = {kTenantRegionBytes};
  return svp::Context::open(std::move(card), std::move(options));
}

void NopVictim::sample(std::vector<double>& times) {
  const auto block = svp::test::Blocks::nop();
  times.push_back(timed([&] { client_.run(block); }));
}

TransferVictim::TransferVictim(svp::Context& tenant)
    : client_(tenant.device()),
      out_(tenant.host_memory().allocate(kTransferBytes)),
      back_(tenant.host_memory().allocate(kTransferBytes)),
      storage_(tenant.allocator().allocate(kTransferBytes)),
      place_(tenant.runtime().allocator().resolve(storage_->allocation_index())) {}

void TransferVictim::sample(std::vector<double>& times) {
  auto* words = reinterpret_cast<std::uint64_t*>(out_.data());
  for (std::size_t i = 0; i < kTransferBytes / sizeof *words; ++i) words[i] = word_ += 0x9E3779B97F4A7C15;
  std::memset(back_.data(), 0, kTransferBytes);
  times.push_back(timed([&] { client_.run(to_device_block(out_, place_, kTransferBytes)); }));
  times.push_back(timed([&] { client_.run(from_device_block(place_, back_, kTransferBytes)); }));
  require(std::memcmp(out_.data(), back_.data(), kTransferBytes) == 0, "a victim's transfer came back changed");
}

KernelVictim::KernelVictim(svp::Context& tenant) : tenant_(tenant), add_(tenant, kKernelRows) {}

void KernelVictim::sample(std::vector<double>& times) {
  auto& stream = tenant_.default_stream().flex_stream();
  add_.wipe();
  times.push_back(timed([&] {
    stream.Launch(add_.job(), add_.arguments(), {.core_mask = 1});
    stream.Synchronize();
  }));
  add_.check();
}

double Compared::ratio(double part) const {
  return percentile(disturbed_relative, part) / percentile(alone_relative, part);
}

namespace {

// Appends one block's times to both forms.
void add_block(Compared& all, const std::vector<double>& alone, const std::vector<double>& disturbed) {
  const double scale = median(alone);
  all.alone.insert(all.alone.end(), alone.begin(), alone.end());
  all.disturbed.insert(all.disturbed.end(), disturbed.begin(), disturbed.end());
  for (const double time : alone) all.alone_relative.push_back(time / scale);
  for (const double time : disturbed) all.disturbed_relative.push_back(time / scale);
}

}  // namespace

Compared compare(Victim& victim, std::size_t samples, const std::function<void()>& start,
                 const std::function<void()>& stop) {
  const std::size_t wanted = (samples + kBlocks - 1) / kBlocks;
  const auto block = [&] {
    std::vector<double> times;
    victim.sample(times);  // still of the block before
    times.clear();
    while (times.size() < wanted) victim.sample(times);
    return times;
  };
  Compared result;
  for (std::size_t round = 0; round <= kBlocks; ++round) {
    const std::vector<double> alone = block();
    start();
    const std::vector<double> disturbed = block();
    stop();
    if (round > 0) add_block(result, alone, disturbed);
  }
  return result;
}

}  // namespace bench

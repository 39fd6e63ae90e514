// SPDX-License-Identifier: Apache-2.0
#include "tests/validation/campaign/kernel_jobs.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <thread>
#include <utility>
#include <vector>

namespace svp::campaign {

using wire::ControlBlock;
using wire::Outcome;

namespace {

// In the Tensor region of a busy tenant …
constexpr std::uint64_t kInputAt = 0, kResultAt = 1 * wire::kMiB, kGateAt = 2 * wire::kMiB, kJobAt = 3 * wire::kMiB;
// … and in its host memory.
constexpr std::uint64_t kOutAt = 0, kBackAt = 1 * wire::kMiB, kJobOutAt = 2 * wire::kMiB, kJobBackAt = 3 * wire::kMiB,
                        kPatternAt = 4 * wire::kMiB;
constexpr std::uint64_t kJobBytes = 64 * wire::kKiB;
constexpr std::uint64_t kMemoryBytes = 2 * wire::kMiB;
// In its Program region.
constexpr std::uint64_t kGatedAt = 0, kEmptyAt = 1 * wire::kMiB;

void fill_random(std::span<std::uint64_t> words, std::mt19937_64& random) {
  for (auto& word : words) word = random();
}

}  // namespace

ControlBlock load_kernel(const BlockBuilder& builder, TestStream& stream, const Card& card, std::string_view name,
                         std::uint64_t at, std::span<const wire::CorrectionSymbol> symbols, std::uint64_t core_mask) {
  const auto image = kernel_image(card, name);
  load_image(builder, stream, at, image);
  ControlBlock block = builder.compute(at, image.size(), core_mask, kManySlices);
  if (symbols.empty()) return block;
  const Region* const touched[] = {&builder.tensor()};
  const auto correction = test::correction_of(symbols, touched);
  const std::uint64_t behind = at + wire::align_up(image.size(), wire::kStickBytes);
  load_image(builder, stream, behind, correction);
  block.payload.compute.correction = builder.program(behind);
  block.payload.compute.correction_bytes = static_cast<std::uint32_t>(correction.size());
  return block;
}

// What was outstanding is delivered by whichever thread found the reset, a moment after failure() tells of it.
bool told_of_reset(ScenarioContext& context, Device& device, const TestStream& stream) {
  const auto limit = ScenarioContext::Clock::now() + context.timeout();
  (void)device.wait_until([&] { return device.failure().has_value(); }, limit);
  while (stream.ended() < stream.submitted() && ScenarioContext::Clock::now() < limit) std::this_thread::yield();
  return device.failure().has_value() && stream.ended() == stream.submitted();
}

// ---- busy tenant ----------------------------------------------------------------------------------------------------

BusyTenant::BusyTenant(ScenarioContext& context, std::unique_ptr<Device> device)
    : context_(context),
      device_(std::move(device)),
      builder_(*device_),
      jobs_(*device_),
      gated_(*device_),
      memory_(value_or_throw(device_->acquire_region(RegionType::Tensor, kMemoryBytes))) {
  fill_random(builder_.host_words(kOutAt, kJobBytes), context.random());
  fill_random(builder_.host_words(kPatternAt, kMemoryBytes), context.random());
  std::ranges::fill(builder_.host_words(kBackAt, kJobBytes), 0);
  const ControlBlock blocks[] = {BlockBuilder::dma(builder_.host(kOutAt), builder_.tensor(kInputAt), kJobBytes),
                                 BlockBuilder::dma(builder_.host(kPatternAt), endpoint_of(memory_), kMemoryBytes),
                                 BlockBuilder::fill(builder_.tensor(kGateAt), wire::kStickBytes, 0)};
  (void)jobs_.submit(blocks);
  (void)jobs_.wait_all(context.timeout());
  const std::array symbols{
      address_symbol(0, builder_.tensor(), kInputAt), address_symbol(1, builder_.tensor(), kResultAt),
      address_symbol(2, builder_.tensor(), kGateAt), dimension_symbol(0, kJobBytes / sizeof(std::uint64_t))};
  const ControlBlock gated = load_kernel(builder_, jobs_, context.card(), "gated", kGatedAt, symbols);
  short_kernel_ = load_kernel(builder_, jobs_, context.card(), "empty", kEmptyAt);
  const ControlBlock queue[] = {gated,
                                BlockBuilder::dma(builder_.tensor(kResultAt), builder_.host(kBackAt), kJobBytes)};
  (void)gated_.submit(queue);
  (void)gated_.wait_started(1, context.timeout());
}

std::string BusyTenant::ended_well(const TestStream& stream, std::size_t from) const {
  if (stream.ended() != stream.submitted()) return "a job did not end";
  for (const wire::Completion& end : stream.endings(from)) {
    if (end.outcome == Outcome::Ok) continue;
    return "a job ended " + std::string(wire::name(end.outcome)) + ", " + std::string(wire::name(end.status));
  }
  return {};
}

void BusyTenant::start_jobs() {
  fill_random(builder_.host_words(kJobOutAt, kJobBytes), context_.random());
  first_job_ = jobs_.ended();
  const ControlBlock blocks[] = {BlockBuilder::dma(builder_.host(kJobOutAt), builder_.tensor(kJobAt), kJobBytes),
                                 short_kernel_,
                                 BlockBuilder::dma(builder_.tensor(kJobAt), builder_.host(kJobBackAt), kJobBytes)};
  (void)jobs_.submit(blocks);
}

std::string BusyTenant::finish_jobs() {
  (void)jobs_.wait_all(context_.timeout());
  if (std::string wrong = ended_well(jobs_, first_job_); !wrong.empty()) return wrong;
  const bool same =
      std::ranges::equal(builder_.host_words(kJobOutAt, kJobBytes), builder_.host_words(kJobBackAt, kJobBytes));
  return same ? std::string() : "a job's data came back wrong";
}

std::string BusyTenant::open_gate() {
  const auto opened = jobs_.run(BlockBuilder::fill(builder_.tensor(kGateAt), wire::kStickBytes, 1), context_.timeout());
  if (!opened || opened->outcome != Outcome::Ok) return "the gate does not open";
  (void)gated_.wait_all(context_.timeout());
  if (std::string wrong = ended_well(gated_, 0); !wrong.empty()) return wrong;
  const bool same = std::ranges::equal(builder_.host_words(kOutAt, kJobBytes), builder_.host_words(kBackAt, kJobBytes));
  return same ? std::string() : "the kernel's result is wrong";
}

std::string BusyTenant::check_memory() {
  const auto back = builder_.host_words(kPatternAt + kMemoryBytes, kMemoryBytes);
  const auto read =
      jobs_.run(BlockBuilder::dma(endpoint_of(memory_), builder_.host(kPatternAt + kMemoryBytes), kMemoryBytes),
                context_.timeout());
  if (!read || read->outcome != Outcome::Ok) return "its memory cannot be read";
  return std::ranges::equal(builder_.host_words(kPatternAt, kMemoryBytes), back) ? std::string() : "its memory changed";
}

}  // namespace svp::campaign
